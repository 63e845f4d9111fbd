"""Finds places for a job that keep the limits of its virtual cluster, also where types of GPUs have limits of their own
and the job leaves the type open. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusters.placement.fit import Placement
from clusters.placement.free import FreeNodes
from clusters.placement.shares import above_ceiling
from jobs.planning.queue.lines import VcQueue
from jobs.planning.queue.scene import JobT


def place(line: VcQueue[JobT], job: JobT, free: FreeNodes) -> tuple[Sequence[Placement] | None, list[str]]:
    """Places that keep the ceiling; and, where there are none for that reason, the resources above it."""
    above: list[str] = []
    withheld = line.queue.scene.appointed.withheld(job)
    for demands in (job.demands, *line.queue.typed(job.demands, line.quota.ceiling)):
        placements = free.place(demands, job.salt, job.avoid, job.vc, withheld)
        if placements is None:
            continue
        over = above_ceiling(line.use, line.queue.amount(job, placements), line.quota) if line.quota.ceiling else []
        if not over:
            return placements, []
        above = above or over
        free.give_back(demands, placements)
    return None, above


def place_within(line: VcQueue[JobT], job: JobT, free: FreeNodes) -> Sequence[Placement] | None:
    """Places with GPUs of a type of which it stays within the guarantee, for a job that leaves the type open."""
    withheld = line.queue.scene.appointed.withheld(job)
    for demands in line.queue.typed(job.demands, line.quota.guarantee):
        placements = free.place(demands, job.salt, job.avoid, job.vc, withheld)
        if placements is not None:
            if line.stays_within_limits(job, placements):
                return placements
            free.give_back(demands, placements)
    return None


def could_be_below(line: VcQueue[JobT], job: JobT, empty: FreeNodes) -> bool:
    """Whether its places could keep the ceiling if nothing ran; ``empty`` is what would be free then."""
    withheld = line.queue.scene.appointed.withheld(job)
    for demands in (job.demands, *line.queue.typed(job.demands, line.quota.ceiling)):
        placements = empty.place(demands, vc=job.vc, withheld=withheld)
        if placements is not None:
            empty.give_back(demands, placements)
            if not above_ceiling({}, line.queue.amount(job, placements), line.quota):
                return True
    return False
