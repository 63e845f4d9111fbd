"""Finds places for a job that keep the limits of its virtual cluster, also where types of GPUs have limits of their own
and the job leaves the type open. And who goes before a job that waits for a ceiling, and who leaves for it: guests,
which end before it could start, or leave at any moment. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import Generic

from clusters.placement.fit import Demand, Placement
from clusters.placement.free import FreeNodes
from clusters.placement.shares import Amount, above_ceiling, add, is_within, nodes_without, plus
from jobs.planning.queue import reclaim
from jobs.planning.queue.free import FreeInRound, Shape
from jobs.planning.queue.lines import Queue, VcQueue
from jobs.planning.queue.reclaim import Fit
from jobs.planning.queue.reservations import end_of_guest, may_be_guest
from jobs.planning.queue.scene import JobT, Runner
from jobs.planning.queue.users.waiting_lines import passed_by

Cleared = tuple[Sequence[Demand], Sequence[Placement], Sequence[Runner[JobT]]]


def place(line: VcQueue[JobT], job: JobT, free: FreeNodes) -> tuple[Sequence[Placement] | None, list[str]]:
    """Places that keep the ceiling; and, where there are none for that reason, the resources above it."""
    above: list[str] = []
    withheld = line.queue.scene.appointed.withheld(job)
    for demands in chain((job.demands,), line.queue.typed(job.demands, line.quota.ceiling, line.use)):
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
    for demands in line.queue.typed(job.demands, line.quota.guarantee, line.use):
        placements = free.place(demands, job.salt, job.avoid, job.vc, withheld)
        if placements is not None:
            if line.stays_within_limits(job, placements):
                return placements
            free.give_back(demands, placements)
    return None


def place_as_owner(
    line: VcQueue[JobT], job: JobT, round: FreeInRound[JobT]
) -> tuple[Sequence[Placement], FreeNodes] | None:
    """Places for a job within the guarantee where room is gathered for others that are beyond theirs; and what they are
    taken from."""
    if round.owned is None or not is_within(line.use, line.queue.asked(job.demands), line.quota):
        return None
    ours = (each for each in line.queue.reservations if each.job.vc == line.vc and each.yields)
    free = round.of_owner(round.owned, line.vc, ours)
    placements, _ = place(line, job, free)
    if placements is not None and not line.stays_within_limits(job, placements):
        free.give_back(job.demands, placements)
        placements = place_within(line, job, free)
    return None if placements is None else (placements, free)


def could_be_below(line: VcQueue[JobT], job: JobT, empty: FreeNodes) -> bool:
    """Whether its places could keep the ceiling if nothing ran; ``empty`` is what would be free then."""
    withheld = line.queue.scene.appointed.withheld(job)
    for demands in (job.demands, *line.queue.typed(job.demands, line.quota.ceiling, {})):
        placements = empty.place(demands, vc=job.vc, withheld=withheld)
        if placements is not None:
            empty.give_back(demands, placements)
            if not above_ceiling({}, line.queue.amount(job, placements), line.quota):
                return True
    return False


# --- ceilings --------------------------------------------------------------------------------------------------------


def keep_below(line: VcQueue[JobT], job: JobT, until: datetime | None) -> None:
    """Note that those behind the first blocked job leave it its part of the ceiling until then."""
    line.kept_below = line.queue.asked(job.demands)
    line.below_at.setdefault(job.id, until)
    line.unlimited.clear()


def first_at_ceiling(line: VcQueue[JobT], what: str) -> JobT:
    """The job behind which others wait for the ceiling of a resource."""
    first = line.at_ceiling.get(what, line.first_blocked)
    assert first is not None
    return first


def shared_ceiling(line: VcQueue[JobT], job: JobT, wants: Amount) -> list[str]:
    """The resources for whose ceiling others wait before this job, or in which it would keep the one above it for which
    room is kept."""
    if shared := [what for what, first in line.at_ceiling.items() if wants.get(what) and first.id != job.id]:
        return shared
    if not line.kept_below or above_ceiling(line.use, wants, line.quota):
        return []
    return list(above_ceiling(plus(line.use, line.kept_below), wants, line.quota))


def room_below(line: VcQueue[JobT], job: JobT, untouched: FreeNodes) -> Cleared[JobT] | None:
    """The room of a job that waits for the ceiling alone because of guests of its virtual cluster, or of jobs that end:
    its demands, its places, and the guests that leave for it. None where it would not surely fit then."""
    queue, scene = line.queue, line.queue.scene
    if not queue.somebody_moves:
        return None
    going, ours, guests = _leaving(line, job)
    left = [node for node in queue.left() if node.name not in scene.unseen]
    left = nodes_without(left, [hold for runner in going for hold in runner.holds])
    fit = Fit(job, untouched.copy(left), left, queue.reservations, scene.appointed.withheld(job))

    def way(victims: Sequence[Runner[JobT]]) -> Cleared[JobT] | None:
        use = dict(line.use)
        for runner in (*ours, *victims):
            add(use, scene.amount(runner.holds), -1)
        if above_ceiling(use, queue.asked(job.demands), line.quota):
            return None
        for demands in (job.demands, *queue.typed(job.demands, line.quota.ceiling, use)):
            found = None if above_ceiling(use, queue.asked(demands), line.quota) else fit.placements(demands, victims)
            if found is not None and not above_ceiling(use, queue.amount(job, found), line.quota):
                return demands, found, victims
        return None

    chosen = reclaim.fewest(reclaim.cheapest_first(guests, scene), way)
    return way(chosen) if chosen is not None and (chosen or ours) else None


def below_at(line: VcQueue[JobT], job: JobT) -> datetime | None:
    """When enough of its virtual cluster's jobs have likely ended for this one to stay below the ceiling; None where
    that cannot be said. Its guests leave at any moment."""
    queue, scene, use = line.queue, line.queue.scene, dict(line.use)
    if not queue.looks:
        return None
    ends: list[tuple[datetime, int, Runner[JobT]]] = []
    for runner in queue.runners:
        if runner.job.vc == line.vc:
            leaves = runner.job.is_guest or runner.job.is_ending or runner.job.id in queue.evicted
            end = scene.rounded_now if leaves else scene.likely_end(runner.job)
            ends += [] if end is None else [(end, runner.job.id, runner)]
    for end, _, runner in sorted(ends, key=itemgetter(0, 1)):
        add(use, scene.amount(runner.holds), -1)
        if not above_ceiling(use, queue.asked(job.demands), line.quota):
            return end
    return None


def may_go_before(line: VcQueue[JobT], job: JobT, waits_for: Sequence[str]) -> bool:
    """Whether it would be below the ceiling of these resources, and leaves before those could start that wait for it.
    Where one of those starts in a moment, a guest would only hold that up."""
    scene, wants = line.queue.scene, line.queue.asked(job.demands)
    if line.rests(job) or line.exceeds_with_reclaimed(wants) or (line.has_caps and line.capped(job, wants)):
        return False
    if above_ceiling(line.use, wants, line.quota):
        line.behind_ceiling.discard(id(job.demands))
        return False
    line.guests += 1
    moments = [line.below_at.get(first_at_ceiling(line, what).id) for what in waits_for]
    known = [moment for moment in moments if moment is not None]
    if any(moment <= scene.rounded_now for moment in known):
        return False
    return end_of_guest(job, scene, min(known) if len(known) == len(moments) else None, None) is not None


def without_guests(line: VcQueue[JobT], job: JobT) -> Amount:
    """What its virtual cluster uses without its guests, which leave for this job, and without those that end."""
    use = dict(line.use)
    if line.queue.somebody_moves:
        _, ours, guests = _leaving(line, job)
        for runner in (*ours, *guests):
            add(use, line.queue.scene.amount(runner.holds), -1)
    return use


def _leaving(line: VcQueue[JobT], job: JobT) -> tuple[list[Runner[JobT]], list[Runner[JobT]], list[Runner[JobT]]]:
    """The running jobs that end anyway, those of them of its virtual cluster, and the guests of that one that leave."""
    queue = line.queue
    going = [runner for runner in queue.runners if runner.job.is_ending or runner.job.id in queue.evicted]
    gone = {runner.job.id for runner in going}
    guests = [
        each for each in queue.runners if each.job.vc == line.vc and each.job.is_guest and each.job.id not in gone
    ]
    guests = [each for each in guests if not queue.returns_before(each, job)]
    return going, [runner for runner in going if runner.job.vc == line.vc], guests


class ShapesWithoutRoom(Generic[JobT]):
    """The shapes that found none in one round of turns, and the jobs that are passed by for it. What is free only
    becomes less in a round, so a shape that found no room finds none later."""

    def __init__(self, queue: Queue[JobT], free: FreeInRound[JobT]) -> None:
        self._scene, self._reservations, self._free = queue.scene, queue.reservations, free
        # With the shape itself, so that its id stays its own.
        self.shapes: dict[Shape, Sequence[Demand]] = {}
        self.at_all: dict[Shape, Sequence[Demand]] = {}  # not even as a guest
        self.too_late: dict[Shape, datetime] = {}  # the first end with which a guest would stay too long

    def is_asked_as_guest(self, line: VcQueue[JobT], job: JobT) -> bool:
        return line.guests < self._scene.policy.depth and may_be_guest(job, self._scene)

    def is_hopeless(self, line: VcQueue[JobT], job: JobT) -> bool:
        """Whether the job is skipped whatever else this round brings."""
        known = self._is_hopeless(line, self._free.shape(job)) if line.waits else False
        return known or (known is None and not self.is_asked_as_guest(line, job))

    def pass_by(self, line: VcQueue[JobT]) -> None:
        """Leave out the next jobs as long as they are hopeless: very many, which have few shapes."""
        if not line.waits:
            return
        known: dict[Shape, bool | None] = {}

        def is_hopeless(job: JobT) -> bool:
            try:
                if (key := self._free.shape(job)) not in known:
                    known[key] = self._is_hopeless(line, key)
                return known[key] or (known[key] is None and not self.is_asked_as_guest(line, job))
            except Exception:
                return False  # its turn has the error

        by_kind = not self._scene.appointed.spans
        line.at = passed_by(line.jobs, line.at, is_hopeless, by_kind=by_kind)
        if line.lines is not None and line.at >= len(line.jobs):
            line.lines.pass_by(is_hopeless, by_kind=by_kind)

    def _is_hopeless(self, line: VcQueue[JobT], key: Shape) -> bool | None:
        """Whether all jobs of the shape are, behind one that waits; None where one may be asked as a guest."""
        if key not in self.shapes or (line.first_blocked is None and key not in line.hindered):
            return False
        if self._free.owned is not None and key not in line.takes_nothing_gathered:
            return False
        return None if self._reservations and key not in self.at_all else True
