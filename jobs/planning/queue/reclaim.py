"""Chooses the jobs that are evicted so that another one gets the room it has a right to. Pure.

Guests leave for the job whose room they are on. Borrowers, the youngest jobs of a virtual cluster that uses more than
its guarantee, leave for a job that stays within the guarantee of its own; before them those who run on nodes that are
dedicated to that job's virtual cluster by now. Any other job that is within is never chosen. However often one was
evicted, it is again where an owner has a right to its room; it borrows no sooner than after a rest that grows. Where a
virtual cluster has a minimum run, its borrowers leave once they have run for so long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Generic

from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.free import FreeNodes
from clusters.placement.shares import add, exceeded, nodes_without, share
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import JobT, Runner, Scene


def without(gone: Sequence[Runner[JobT]], scene: Scene[JobT]) -> Scene[JobT]:
    """Make the scene as if these jobs held nothing and did not run."""
    ids = {runner.job.id for runner in gone}
    use = {vc: dict(amount) for vc, amount in scene.use.items()}
    for runner in gone:
        add(use.setdefault(runner.job.vc, {}), scene.amount(runner.holds), -1)
    nodes = nodes_without(scene.nodes, [hold for runner in gone for hold in runner.holds])
    others = [runner for runner in scene.running() if runner.job.id not in ids]
    return replace(scene, nodes=nodes, use=use, running=lambda: others)


def above_guarantee(mine: str, scene: Scene[JobT]) -> list[str]:
    """The virtual clusters other than ``mine`` that use more than their guarantee, the one most above it first."""
    use = scene.use
    above = [vc for vc in use if vc != mine and exceeded({}, use[vc], scene.quota(vc).guarantee, named_only=False)]
    return sorted(above, key=lambda name: (-share(use[name], scene.quota(name)), name))


def may_reclaim(mine: str, scene: Scene[JobT]) -> bool:
    """Whether others use anything to which the virtual cluster ``mine`` may have a right; little work where not."""
    if above_guarantee(mine, scene):
        return True
    own = own_nodes(mine, scene.nodes)
    return bool(own) and any(hold.node in own and hold.vc != mine for hold in scene.holds())


def spared_until(runner: Runner[JobT], scene: Scene[JobT]) -> datetime | None:
    """When a borrower has run for the minimum of its virtual cluster; None where it leaves at any moment by now."""
    least, job = scene.quota(runner.job.vc).min_run, runner.job
    if not least or job.started_at is None or job.is_preemptible:
        return None
    until = job.started_at + timedelta(minutes=least)
    return until if until > scene.rounded_now else None


def own_nodes(mine: str, nodes: Sequence[NodeView]) -> frozenset[str]:
    return frozenset(node.name for node in nodes if node.dedicated_to == mine)


def on_nodes_of(mine: str, all_: Sequence[Runner[JobT]], scene: Scene[JobT]) -> list[Runner[JobT]]:
    """The jobs of others on nodes that are dedicated to the virtual cluster ``mine``: they started there before."""
    own = own_nodes(mine, scene.nodes)
    theirs = [runner for runner in all_ if runner.job.vc != mine and any(hold.node in own for hold in runner.holds)]
    return cheapest_first(theirs, scene)


def borrowers(
    mine: str, all_: Sequence[Runner[JobT]], going: Collection[int], scene: Scene[JobT]
) -> list[Runner[JobT]]:
    """The jobs that virtual clusters other than ``mine`` run beyond their guarantees: of the one most above it first,
    in it those ``cheapest_first``. ``going`` are the ids of those that end anyway."""
    candidates: list[Runner[JobT]] = []
    for vc in above_guarantee(mine, scene):
        ours = [runner for runner in all_ if runner.job.vc == vc]
        candidates += cheapest_first(_beyond(vc, ours, going, scene), scene)
    return candidates


def _beyond(vc: str, ours: Sequence[Runner[JobT]], going: Collection[int], scene: Scene[JobT]) -> list[Runner[JobT]]:
    """The youngest jobs, as long as what is used is above the guarantee in something that they hold."""
    left, guarantee, beyond = dict(scene.use[vc]), scene.quota(vc).guarantee, list[Runner[JobT]]()
    for runner in sorted(ours, key=lambda runner: (runner.job.id not in going, *_youngest_first(runner))):
        mine = scene.amount(runner.holds)
        if runner.job.id in going:
            add(left, mine, -1)
        elif any(what in mine for what in exceeded({}, left, guarantee, named_only=False)):
            add(left, mine, -1)
            beyond.append(runner)
    return beyond


def owners(mine: str, all_: Sequence[Runner[JobT]], going: Collection[int], scene: Scene[JobT]) -> list[Runner[JobT]]:
    """The jobs that virtual clusters other than ``mine`` run within their guarantees: nobody takes their room. Where
    one uses more than that, its guests are not among them."""
    above, of_vc = {*above_guarantee(mine, scene)}, dict[str, list[Runner[JobT]]]()
    for runner in all_:
        if runner.job.vc != mine:
            of_vc.setdefault(runner.job.vc, []).append(runner)
    found: list[Runner[JobT]] = []
    for vc, ours in of_vc.items():
        leave = {*going, *(each.job.id for each in (_beyond(vc, ours, going, scene) if vc in above else ()))}
        found += [each for each in ours if each.job.id not in leave and not (vc in above and each.job.is_guest)]
    return found


def _youngest_first(runner: Runner[JobT]) -> tuple[float, int]:
    """Sorts the youngest first."""
    started: datetime | None = runner.job.started_at
    return (-started.timestamp() if started else 0.0), -runner.job.id


def cheapest_first(runners: Sequence[Runner[JobT]], scene: Scene[JobT]) -> list[Runner[JobT]]:
    """Sort jobs of lower priority first, then those whose eviction loses less work, those that were evicted less often,
    and the younger ones."""

    def price(runner: Runner[JobT]) -> tuple[float, ...]:
        job = runner.job
        return (job.priority, runner.lost(scene.now), job.evictions + job.guest_evictions, *_youngest_first(runner))

    return sorted(runners, key=price)


def choose_victims(
    fit: Fit[JobT], demands: Sequence[Demand], candidates: Sequence[Runner[JobT]]
) -> tuple[list[Runner[JobT]], list[Placement]] | None:
    """The candidates, the first ones preferred, without which the job surely fits, and its places then; none of them is
    there in vain. None where it would not fit without all of them."""
    placements = partial(fit.placements, demands)
    if placements(candidates) is None:
        return None
    count = bisect_left(range(len(candidates)), 1, key=lambda n: int(placements(candidates[:n]) is not None))
    chosen = list(candidates[:count])
    places = placements(chosen)
    assert places is not None
    where = {place.node for place in places}
    chosen = [runner for runner in chosen if any(hold.node in where for hold in runner.holds)]
    near = [node for node in fit.nodes if node.name in where]
    chosen = needed(
        chosen, partial(Fit(fit.job, FreeNodes(near), near, fit.reservations, fit.withheld).placements, demands)
    )
    chosen = needed(chosen, placements)  # a last look at all nodes
    places = placements(chosen)
    return None if places is None else (chosen, places)


def fewest(
    candidates: Sequence[Runner[JobT]], placements: Callable[[Sequence[Runner[JobT]]], object | None]
) -> list[Runner[JobT]] | None:
    """The candidates, the first ones preferred, without which there are places; none of them is there in vain."""
    if placements(candidates) is None:
        return None
    count = bisect_left(range(len(candidates)), 1, key=lambda n: int(placements(candidates[:n]) is not None))
    return needed(list(candidates[:count]), placements)


def needed(
    chosen: list[Runner[JobT]], placements: Callable[[Sequence[Runner[JobT]]], object | None]
) -> list[Runner[JobT]]:
    """Return those of the chosen that are not there in vain."""
    for runner in chosen[::-1]:
        fewer = [other for other in chosen if other is not runner]
        if placements(fewer) is not None:
            chosen = fewer
    return chosen


@dataclass(frozen=True, slots=True)
class Fit(Generic[JobT]):
    """Says where a job would fit once others are evicted, beside the ``reservations`` of other jobs. ``free`` is what
    is free on ``nodes``."""

    job: JobT
    free: FreeNodes
    nodes: Sequence[NodeView]
    reservations: Sequence[Reservation[JobT]]
    withheld: frozenset[str] = frozenset()

    def placements(self, demands: Sequence[Demand], gone: Sequence[Runner[JobT]]) -> list[Placement] | None:
        free = self.free.copy(nodes_without(self.nodes, [hold for runner in gone for hold in runner.holds]))
        for reservation in self.reservations:
            free.set_aside(reservation.demands, reservation.nodes)
        return free.place(demands, self.job.salt, self.job.avoid, self.job.vc, self.withheld)
