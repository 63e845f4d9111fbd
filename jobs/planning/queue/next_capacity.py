"""Finds the room that a job without any gets next: what comes free in a moment, else what others are evicted from, else
where the least is still to wait for; never where its virtual cluster would be above its ceiling. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic

from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.free import FreeNodes
from clusters.placement.shares import Amount, above_ceiling, add, is_within, nodes_without
from jobs.planning.queue import places, reclaim, reservations
from jobs.planning.queue.lines import VcQueue
from jobs.planning.queue.reclaim import Fit
from jobs.planning.queue.reservations import UNKNOWN
from jobs.planning.queue.scene import JobT, Runner, holds_at


@dataclass(frozen=True, slots=True)
class NextCapacity(Generic[JobT]):
    """``nodes`` has the node of each of the job's ``demands``, in which the types of GPUs are settled where the ceiling
    asks for that. ``moment`` is when the room is likely free, if that can be said. ``victims`` are the jobs evicted for
    it; ``awaits`` says that those who hold it are ending already. ``spared`` are those who leave at that moment, when
    they have run for the minimum of their virtual cluster."""

    demands: Sequence[Demand]
    nodes: tuple[str, ...]
    moment: datetime | None
    victims: Sequence[Runner[JobT]] = ()
    awaits: bool = False
    spared: Sequence[Runner[JobT]] = ()


def room_to_come(
    line: VcQueue[JobT], job: JobT, untouched: FreeNodes
) -> tuple[NextCapacity[JobT] | None, Sequence[str]]:
    """The room that the first job of a virtual cluster without any gets next. ``untouched`` is that of the nodes before
    anybody's turn.

    Without such room the second has the resources above the ceiling; it is empty where even idle nodes could not hold
    the job beside what is reserved for others.
    """
    search = _Search(line, job)
    return search.found(untouched), search.above


def owners_in_the_way(line: VcQueue[JobT], job: JobT) -> Sequence[str]:
    """The virtual clusters whose jobs, within their guarantees, are in the way of one that is beyond that of its own
    even alone; none where what its own, borrowers and nobody hold would be enough. Asked once for a shape."""
    if is_within({}, line.queue.asked(job.demands), line.quota):
        return ()
    if line.leave is None:
        line.owners, line.leave = _leave(line)
    if not line.owners:
        return ()
    placements = line.leave.place(job.demands, vc=job.vc, withheld=line.queue.scene.appointed.withheld(job))
    if placements is not None:
        line.leave.give_back(job.demands, placements)
        return ()
    return line.owners


def _leave(line: VcQueue[JobT]) -> tuple[Sequence[str], FreeNodes]:
    """The virtual clusters, other than its own, that run jobs within their guarantees; and what those leave free."""
    queue, scene = line.queue, line.queue.scene
    nodes = queue.left()
    uses = {**scene.use, **{vc: other.use for vc, other in queue.lines.items() if other.tracks_use}}
    if not any(vc != line.vc and any(use.values()) and scene.quota(vc).guarantee for vc, use in uses.items()):
        return (), FreeNodes(())
    started = [Runner(replace(job, started_at=scene.now), holds_at(job, places)) for job, places in queue.taken]
    all_ = [*queue.runners, *started]
    going = {runner.job.id for runner in all_ if runner.job.is_ending or runner.job.id in queue.evicted}
    theirs = {runner.job.id for runner in reclaim.owners(line.vc, all_, going, replace(scene, use=uses))}
    shared = {node.name for node in nodes if not node.dedicated_to}
    away = [hold for each in all_ for hold in each.holds if each.job.id not in theirs or hold.node not in shared]
    vcs = {each.job.vc for each in all_ if each.job.id in theirs and any(hold.node in shared for hold in each.holds)}
    return sorted(vcs), FreeNodes(nodes_without(nodes, away))


class _Search(Generic[JobT]):
    def __init__(self, line: VcQueue[JobT], job: JobT) -> None:
        self.line, self.job, self.queue, self.scene = line, job, line.queue, line.queue.scene
        self.use: Amount = line.use  # of its virtual cluster, as far as it stays
        self.above: list[str] = []  # resources of the ceiling that were in the way
        self.spares = any(quota.min_run for quota in self.scene.quotas.values())

    def found(self, untouched: FreeNodes) -> NextCapacity[JobT] | None:
        queue, job = self.queue, self.job
        left = [node for node in queue.left() if node.name not in self.scene.unseen]
        if job.id in self.line.below_at:
            self.use = places.without_guests(self.line, job)
        has_right = is_within(self.use, queue.asked(job.demands), self.line.quota)
        reclaims = has_right and reclaim.may_reclaim(job.vc, self.scene)
        runners = queue.runners if reclaims or queue.somebody_moves else []
        going = [runner for runner in runners if runner.job.is_ending or runner.job.id in queue.evicted]
        gone = {runner.job.id for runner in going}
        guests = [runner for runner in runners if runner.job.is_guest and runner.job.id not in gone]
        guests = [runner for runner in guests if not queue.returns_before(runner, job)]
        guests = reclaim.cheapest_first(guests, self.scene)
        left = nodes_without(left, [hold for runner in going for hold in runner.holds])
        fit = Fit(job, untouched.copy(left), left, queue.reservations, self.scene.appointed.withheld(job))
        coming = self._without(fit, (), self.line.quota.ceiling, self._is_below) if going else None
        if coming is None and reclaims:
            coming = self._reclaimed(fit, self._owed(guests, runners, gone))
        if coming is None and guests:
            coming = self._without(fit, guests, self.line.quota.ceiling, self._is_below)
        if coming is None and reclaims and self.spares:
            coming = self._reclaimed(fit, self._owed(guests, runners, gone, with_spared=True))
        return coming or self._nearest(
            untouched, nodes_without(left, [hold for runner in guests for hold in runner.holds])
        )

    def _reclaimed(self, fit: Fit[JobT], owed: Iterator[Sequence[Runner[JobT]]]) -> NextCapacity[JobT] | None:
        """The room that others give back: now or, where one of them is spared yet, when all have run for long enough.
        Until then it is gathered, and nobody leaves."""
        for candidates in owed:
            coming = self._without(fit, candidates, self.line.quota.guarantee, self._keeps)
            if coming is not None:
                spared = [each for each in coming.victims if reclaim.spared_until(each, self.scene)]
                moment = max(map(self._leaves_at, coming.victims))
                return replace(coming, victims=(), moment=moment, spared=spared) if spared else coming
        return None

    def _leaves_at(self, runner: Runner[JobT]) -> datetime:
        return reclaim.spared_until(runner, self.scene) or self.scene.rounded_now

    def _owed(
        self,
        guests: Sequence[Runner[JobT]],
        runners: Sequence[Runner[JobT]],
        gone: Collection[int],
        *,
        with_spared: bool = False,
    ) -> Iterator[list[Runner[JobT]]]:
        """Yield the running jobs that may be evicted for a job with a right to its room, the first ones preferred:
        ``guests``, those on its virtual cluster's own nodes, and who still borrows once they are gone, at last those
        that are spared yet; then without those on its nodes."""
        others = [runner for runner in runners if runner not in guests]
        ours = [runner for runner in reclaim.on_nodes_of(self.job.vc, others, self.scene) if runner.job.id not in gone]
        for known in [[*guests, *ours], guests] if ours else [guests]:
            away = {runner.job.id for runner in known if runner not in guests} | {*gone}
            borrowers = [
                runner for runner in reclaim.borrowers(self.job.vc, runners, away, self.scene) if runner not in guests
            ]
            if with_spared:
                borrowers.sort(key=self._leaves_at)
            elif self.spares:
                borrowers = [each for each in borrowers if not reclaim.spared_until(each, self.scene)]
            if ours or borrowers:
                yield [*known, *borrowers]

    def _without(
        self,
        fit: Fit[JobT],
        candidates: Sequence[Runner[JobT]],
        limits: Amount,
        is_good: Callable[[Sequence[Placement], Amount], bool],
    ) -> NextCapacity[JobT] | None:
        """Find where the job fits without some of the candidates, as few as will do; ``limits`` are those of types that
        count here."""
        for demands in (self.job.demands, *self.queue.typed(self.job.demands, limits, self.use)):
            chosen = reclaim.choose_victims(fit, demands, candidates)
            if chosen is not None and is_good(chosen[1], self.use):
                way: places.Cleared[JobT] | None = (demands, chosen[1], chosen[0])
                if candidates and (self.queue.types_differ or self.use is not self.line.use):
                    way = self._needed(fit, chosen[0], candidates, limits, is_good)
                if way is not None:
                    nodes = tuple(place.node for place in way[1])
                    return NextCapacity(way[0], nodes, self.scene.rounded_now, way[2], awaits=not candidates)
        return None

    def _needed(
        self,
        fit: Fit[JobT],
        chosen: Sequence[Runner[JobT]],
        candidates: Sequence[Runner[JobT]],
        limits: Amount,
        is_good: Callable[[Sequence[Placement], Amount], bool],
    ) -> places.Cleared[JobT] | None:
        """Keep of the chosen those without any one of whom it fits with no types of GPUs; and with them those guests of
        its own virtual cluster that would leave it no room below the ceiling. None where it does not surely fit."""
        ours, use = [each for each in candidates if each.job.vc == self.job.vc], dict(self.use)
        if self.use is not self.line.use:  # it is what stays once all of those have left
            chosen = [*chosen, *(each for each in ours if each not in chosen)]
            add(use, self.scene.amount(hold for each in ours for hold in each.holds))

        def way(victims: Sequence[Runner[JobT]]) -> places.Cleared[JobT] | None:
            stays = dict(use)
            add(stays, self.scene.amount(hold for each in victims if each in ours for hold in each.holds), -1)
            for demands in (self.job.demands, *self.queue.typed(self.job.demands, limits, stays)):
                placements = fit.placements(demands, victims)
                if placements is not None and is_good(placements, stays):
                    return demands, placements, victims
            return None

        return way(reclaim.needed(list(chosen), way))

    def _keeps(self, placements: Sequence[Placement], use: Amount) -> bool:
        """Whether the job stays within the guarantee, also of types: jobs are evicted for no other, since it would wait
        behind them."""
        return self.line.stays_within_limits(self.job, placements, use)

    def _is_below(self, placements: Sequence[Placement], use: Amount) -> bool:
        return self._is_allowed(self.queue.amount(self.job, placements), use)

    def _is_allowed(self, amount: Amount, use: Amount) -> bool:
        above = above_ceiling(use, amount, self.line.quota)
        self.above = self.above or above
        return not above

    def _nearest(self, untouched: FreeNodes, left: Sequence[NodeView]) -> NextCapacity[JobT] | None:
        """Find the nodes where the least is still to wait for. With any types of GPUs, if the ceiling allows those that
        it may get there, else with the one that comes first."""
        free, ways = untouched.copy(left), list[NextCapacity[JobT]]()
        is_beyond = not is_within({}, self.queue.asked(self.job.demands), self.line.quota)
        could = self.line.leave if self.line.owners and is_beyond else None
        withheld = self.scene.appointed.withheld(self.job)
        left = [node for node in left if node.name not in withheld] if withheld else left
        for demands in (self.job.demands, *self.queue.typed(self.job.demands, self.line.quota.ceiling, self.use)):
            queue = self.queue
            nearest = reservations.nearest(
                demands, self.job.vc, free, left, queue.reservations, queue.ends, self.scene.rounded_now, could
            )
            if nearest is not None and self._is_allowed(self.queue.most(demands, nearest[0]), self.use):
                ways.append(NextCapacity(demands, *nearest))
                if demands is self.job.demands:
                    break
        return min(ways, key=lambda way: way.moment or UNKNOWN, default=None)
