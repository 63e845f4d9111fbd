"""Images of containers that failed: each on the node where its container was, for LONGSHORE_REWIND seconds.

Their names cannot be guessed and are shown to nobody; who may start one is in the row. A survey of the node removes
those whose time is over.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from clusters.engines.image_names import KEPT, canonical
from clusters.engines.runtime import RuntimeFault
from clusters.engines.schemes import runtime_for
from clusters.models import KeptImage, Node
from portal.models import User

MOST = 10  # of a user; the oldest goes for an eleventh
log = structlog.get_logger()


def keep(node: str, container: str, *, username: str, owner: int) -> None:
    """Keep what is in this container, if that may be and can be done. ``owner``: the id of its task."""
    row = Node.objects.filter(name=node).first()
    if not settings.REWIND or row is None or KeptImage.objects.filter(owner=owner).exists():
        return
    image = f"{KEPT}:{secrets.token_hex(16)}"
    try:
        size = runtime_for(row).keep(container, image, settings.REWIND_MB << 20)
    except RuntimeFault as fault:
        log.info("a failed container is not kept", node=node, container=container, reason=fault.sentence)
        return
    until = timezone.now() + timedelta(seconds=settings.REWIND)
    KeptImage.objects.create(node=row, image=image, username=username, owner=owner, size=size, until=until)
    mine = KeptImage.objects.filter(username=username).order_by("-until", "-pk").values_list("pk", flat=True)
    KeptImage.objects.filter(pk__in=list(mine[MOST:])).update(until=timezone.now())


def may_start(user: User, image: str) -> bool:
    rows = KeptImage.objects.filter(image=canonical(image), until__gt=timezone.now())
    return (rows if user.is_admin else rows.filter(username=user.username)).exists()


def sweep(node: Node) -> None:
    """Remove the images of this node whose time is over. What the engine does not do now is done by the next sweep."""
    for row in KeptImage.objects.filter(node=node, until__lte=timezone.now()):
        try:
            runtime_for(node).drop_image(row.image)
        except RuntimeFault as fault:
            log.info("a kept image was not removed yet", node=node.name, reason=fault.sentence)
            return
        row.delete()
