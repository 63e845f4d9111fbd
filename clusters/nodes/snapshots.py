"""Images of containers that failed: each on the node where its container was, for LONGSHORE_REWIND seconds.

Their names cannot be guessed and are shown to nobody; who may start one is in the row. A survey of the node removes
those whose time is over.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Sequence
from datetime import timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from base.models import User
from clusters.engines.image_names import SNAPSHOTS, canonical
from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.engines.schemes import runtime_for
from clusters.models import KeptImage, Node

MOST = 10  # of a user; of more those go first that did not fail by themselves, then the oldest
Worth = Callable[[Sequence[int]], Container[int]]  # of the ids of tasks those that failed by themselves
log = structlog.get_logger()


def keep(node: str, container: str, *, username: str, owner: int, worth: Worth) -> None:
    """Keep what is in this container, if that may be and can be done, and it is worth more than one that its user has.
    ``owner``: the id of its task."""
    row = Node.objects.filter(name=node).first()
    if not settings.REWIND or row is None or KeptImage.objects.filter(owner=owner, size__gte=0).exists():
        return
    if 0 in _surplus(username, worth, (0, owner)):
        return
    # The row is first: a worker that is killed in between leaves a row without an image, which ``clean_up`` removes.
    image, until = f"{SNAPSHOTS}:{secrets.token_hex(16)}", timezone.now() + timedelta(seconds=settings.REWIND)
    snapshot = KeptImage.objects.create(node=row, image=image, username=username, owner=owner, size=-1, until=until)
    try:
        size = runtime_for(row).keep(container, image, settings.REWIND_MB << 20)
    except RuntimeFault as fault:
        log.info("a failed container is not kept", node=node, container=container, reason=fault.sentence)
        if fault.reason is not FaultReason.UNREACHABLE:  # else it may have been kept all the same
            snapshot.delete()
        return
    KeptImage.objects.filter(pk=snapshot.pk).update(size=size)
    KeptImage.objects.filter(pk__in=_surplus(username, worth)).update(until=timezone.now())


def _surplus(username: str, worth: Worth, *more: tuple[int, int]) -> list[int]:
    """The rows of a user beyond those that are kept, by id. ``more``: rows that would be the newest, (id, owner)."""
    there = KeptImage.objects.filter(username=username, until__gt=timezone.now()).order_by("-until", "-pk")
    rows = [*more, *there.values_list("pk", "owner")]
    own = worth([owner for _, owner in rows])
    return [pk for pk, _ in sorted(rows, key=lambda row: row[1] not in own)[MOST:]]


def may_start(user: User, image: str) -> bool:
    rows = KeptImage.objects.filter(image=canonical(image), size__gte=0, until__gt=timezone.now())
    return (rows if user.is_admin else rows.filter(username=user.username)).exists()


def clean_up(node: Node) -> None:
    """Remove the images of this node whose time is over. What the engine does not do now is done the next time."""
    for row in KeptImage.objects.filter(node=node, until__lte=timezone.now()):
        try:
            runtime_for(node).drop_image(row.image)
        except RuntimeFault as fault:
            log.info("a kept image was not removed yet", node=node.name, reason=fault.sentence)
            return
        row.delete()
