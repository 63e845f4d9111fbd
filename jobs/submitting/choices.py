"""What a user may choose from while they write a config: virtual clusters, types of GPUs, images that nodes have."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.conf import settings
from django.db.models.fields.json import KT

from base.accounts.viewer import reads_all
from base.models import User
from clusters.engines.image_names import canonical
from clusters.models import Node
from clusters.vcs.grants import in_order, usable_by
from jobs.config.samples import SAMPLE_IMAGE
from jobs.models import Job

MOST_IMAGES = 1000
_MOST_JOBS = 2000  # of a user, whose images they may read


def vcs_of(user: User) -> list[str]:
    """The virtual clusters to which the user may submit, ``default`` first."""
    return in_order(usable_by(user.username, is_admin=user.is_admin).values_list("name", flat=True))


def gpu_types() -> list[str]:
    """The types of the GPUs that nodes have."""
    return sorted({gpu.get("type", "") for gpus in Node.objects.values_list("gpus", flat=True) for gpu in gpus} - {""})


def images_of(user: User) -> list[dict[str, Any]]:
    """The images that the nodes for the user's jobs have already, with the number of these nodes, most first.

    An image may be of somebody else's job. Where jobs are their owners' affair, only those of the user's own jobs are
    named (LONGSHORE_JOB_PRIVACY)."""
    nodes = Node.objects.filter(status=Node.Status.ACTIVE)
    rows = nodes.values_list("images", "dedicated_to__name")
    allowed = {None, *vcs_of(user)}
    there = Counter(image for images, vc in rows if vc in allowed for image in images)
    if settings.JOB_PRIVACY != "open" and not reads_all(user):
        own = _own(user)
        there = Counter({image: number for image, number in there.items() if image in own})
    most_first = sorted(there.items(), key=lambda image: (-image[1], image[0]))[:MOST_IMAGES]
    return [{"name": image, "nodes": number} for image, number in most_first]


def _own(user: User) -> set[str]:
    mine = Job.objects.filter(username=user.username, deleted_at__isnull=True).order_by("-created_at")
    named = mine.annotate(image=KT("spec__image")).values_list("image", flat=True)[:_MOST_JOBS]
    return {canonical(image) for image in named if image} | {canonical(SAMPLE_IMAGE)}
