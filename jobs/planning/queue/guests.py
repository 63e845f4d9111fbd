"""Says which jobs may run on room that is reserved for others, and until when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clusters.placement.fit import Placement
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import Scene, W


def may_be_guest(job: W, scene: Scene[W]) -> bool:
    """Whether it agreed to leave at any moment, or something tells when it ends, and it was not evicted too often."""
    if job.guest_evictions >= scene.policy.guest_evictions:
        return False
    return job.is_preemptible or job.most_seconds is not None or bool(scene.lengths())


def end_of_guest(job: W, scene: Scene[W], latest: datetime | None, too_late: datetime | None) -> datetime | None:
    """When one that may be a guest leaves the room of others at the latest; None where that is too late. ``latest`` is
    the last of the moments at which reserved room is likely free, ``too_late`` an end of the like that was too late for
    all."""
    if job.is_preemptible:
        return scene.about  # its owner agreed that it leaves at any moment
    end = scene.likely_end(job)
    if end is None or (too_late is not None and end >= too_late):
        return None
    return end if latest is not None and end <= latest else None


def leaves_in_time(
    job: W, placements: Sequence[Placement], end: datetime, reservations: Sequence[Reservation[W]], now: datetime
) -> bool:
    """Whether it likely leaves before the room on its nodes is free for those who have it reserved; if it does not, it
    is evicted then. Where the room comes at this very moment, a guest would only hold that up."""
    nodes = {place.node for place in placements}
    moments = [each.moment for each in reservations if not nodes.isdisjoint(each.nodes)]
    if any(moment is not None and moment <= now for moment in moments):
        return False
    return job.is_preemptible or all(moment is not None and end <= moment for moment in moments)
