"""An admin's word that a node which does not answer is gone for good: its machine is off, or will never come back.

Longshore cannot know that by itself. A node that it does not hear of may go on running its containers, so nothing that
is still listed of them is deleted by force, and their tasks are tried elsewhere only after a while. The admin's word
ends both, and holds until the node is heard again.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from base.accounts import audit
from base.accounts.viewer import Viewer, require_admin
from base.core.errors import ConflictNode
from clusters.engines import schemes
from clusters.models import Node
from clusters.nodes.services import find_node


def confirm_gone(actor: Viewer, name: str) -> Node:
    """PUT /nodes/:name/gone. What ran there is lost at once and tried elsewhere; what a cluster still lists of it is
    deleted by force. ConflictNode for a node that answers. Saying it twice is as saying it once."""
    who = require_admin(actor).username
    with transaction.atomic():
        node = find_node(name, lock=True)
        if node.health != Node.Health.UNREACHABLE:
            raise ConflictNode(f"{name} answers, so it is not gone. Cordon or drain it to take it out of service.")
        if node.gone_at is not None:
            return node
        node.gone_at = timezone.now()
        node.health_reason = f"{node.health_reason} An admin says that it is gone for good.".lstrip()
        node.save(update_fields=["gone_at", "health_reason", "updated_at"])
        audit.changed(who, "node confirmed gone", name, {"tasks": node.allocations.count()})
    return node


def remove_container(name: str, container: str) -> None:
    """Remove a container that no task needs: by its node, or by its cluster alone where an admin says that the node is
    gone. Raises RuntimeFault."""
    gone = Node.objects.filter(name=name, health=Node.Health.UNREACHABLE, gone_at__isnull=False, cluster__isnull=False)
    if node := gone.only("endpoint", "tls_dir").first():
        schemes.inventory_at(node.endpoint, node.tls_dir).forget(container)
    else:
        schemes.runtime_for(name).remove(container)
