"""Chooses the jobs that are evicted so that another one gets the room it has a right to. Pure.

Guests leave for the job whose room they are on. Borrowers, the youngest jobs of a virtual cluster that uses more than
its guarantee, leave for a job that stays within the guarantee of its own; before them those who run on nodes that are
dedicated to that job's virtual cluster by now. Any other job that is within is never chosen, and who has borrowed and
was evicted a few times is not again: the owner waits for its end, and a job that is larger than the guarantee of its
virtual cluster ends some day too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic

from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.room import Room
from clusters.placement.shares import Amount, Hold, Quota, add, of_gpus, over, share
from clusters.placement.shares import freed as without
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import Scene, W


@dataclass(frozen=True, slots=True)
class Holder(Generic[W]):
    """A running job and what its tasks hold."""

    job: W
    holds: tuple[Hold, ...]


def holders(scene: Scene[W]) -> list[Holder[W]]:
    """All running jobs that hold something."""
    return [Holder(job, tuple(holds)) for job, holds in scene.holding() if holds]


def above_guarantee(mine: str, scene: Scene[W]) -> list[str]:
    """The virtual clusters other than ``mine`` that use more than their guarantee, the one most above it first."""
    use = scene.use
    above = [vc for vc in use if vc != mine and over({}, use[vc], scene.quota(vc).guarantee, named_only=False)]
    return sorted(above, key=lambda name: (-share(use[name], scene.quota(name)), name))


def may_reclaim(mine: str, scene: Scene[W]) -> bool:
    """Whether others use anything to which the virtual cluster ``mine`` may have a right; little work where not."""
    if above_guarantee(mine, scene):
        return True
    own = own_nodes(mine, scene.nodes)
    return bool(own) and any(hold.node in own and hold.vc != mine for hold in scene.holds.values())


def own_nodes(mine: str, nodes: Sequence[NodeView]) -> frozenset[str]:
    return frozenset(node.name for node in nodes if node.dedicated_to == mine)


def on_nodes_of(mine: str, all_: Sequence[Holder[W]], scene: Scene[W]) -> list[Holder[W]]:
    """The jobs of others on nodes that are dedicated to the virtual cluster ``mine``: they started there before."""
    own = own_nodes(mine, scene.nodes)
    return by_youth([one for one in all_ if one.job.vc != mine and any(hold.node in own for hold in one.holds)])


def borrowers(mine: str, all_: Sequence[Holder[W]], going: Collection[int], scene: Scene[W]) -> list[Holder[W]]:
    """The jobs that virtual clusters other than ``mine`` run beyond their guarantees: of the one most above it first,
    in it those of lower priority, then the younger ones. ``going`` are the ids of those that end anyway."""
    found: list[Holder[W]] = []
    types = {node.name: dict(node.gpus) for node in scene.nodes}
    for vc in above_guarantee(mine, scene):
        ours = [one for one in all_ if one.job.vc == vc]
        beyond = _beyond(ours, going, scene.use[vc], scene.quota(vc), types)
        found += by_youth([one for one in beyond if one.job.evictions < scene.policy.evictions])
    return found


def _beyond(
    ours: Sequence[Holder[W]],
    going: Collection[int],
    use: Amount,
    quota: Quota,
    types: Mapping[str, Mapping[str, str]],
) -> list[Holder[W]]:
    """The youngest jobs, as long as what is used is above the guarantee in something that they hold."""
    left, found = dict(use), []
    for one in sorted(ours, key=lambda one: (one.job.id not in going, *_age(one))):
        mine = amount(one.holds, types)
        if one.job.id in going:
            add(left, mine, -1)
        elif any(what in mine for what in over({}, left, quota.guarantee, named_only=False)):
            add(left, mine, -1)
            found.append(one)
    return found


def amount(holds: Sequence[Hold], types: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for hold in holds:
        kinds = types.get(hold.node, {})
        add(found, {"cpu": hold.cpus, "memory": hold.memory_mb, **of_gpus(kinds.get(id, "") for id in hold.gpu_ids)})
    return found


def _age(one: Holder[W]) -> tuple[float, int]:
    """Sorts the youngest first."""
    started: datetime | None = one.job.started_at
    return (-started.timestamp() if started else 0.0), -one.job.id


def by_youth(found: Sequence[Holder[W]]) -> list[Holder[W]]:
    """Those of lower priority first, then the younger ones."""
    return sorted(found, key=lambda one: (one.job.priority, *_age(one)))


def choose_victims(
    fit: Fit[W], demands: Sequence[Demand], candidates: Sequence[Holder[W]]
) -> tuple[list[Holder[W]], list[Placement]] | None:
    """The candidates, the first ones preferred, without which the job surely fits, and its places then; none of them is
    there in vain. None where it would not fit without all of them."""
    places = partial(fit.places, demands)
    if places(candidates) is None:
        return None
    count = bisect_left(range(len(candidates)), 1, key=lambda n: int(places(candidates[:n]) is not None))
    chosen = list(candidates[:count])
    found = places(chosen)
    assert found is not None
    where = {place.node for place in found}
    chosen = [one for one in chosen if any(hold.node in where for hold in one.holds)]
    near = [node for node in fit.nodes if node.name in where]
    chosen = _needed(chosen, partial(Fit(fit.job, Room(near), near, fit.kept).places, demands))
    chosen = _needed(chosen, places)  # a last look at all nodes
    found = places(chosen)
    return None if found is None else (chosen, found)


def _needed(
    chosen: list[Holder[W]], places: Callable[[Sequence[Holder[W]]], list[Placement] | None]
) -> list[Holder[W]]:
    """Those of the chosen that are not there in vain."""
    for one in chosen[::-1]:
        fewer = [other for other in chosen if other is not one]
        if places(fewer) is not None:
            chosen = fewer
    return chosen


@dataclass(frozen=True, slots=True)
class Fit(Generic[W]):
    """Where a job fits once others are gone, beside what is ``kept`` for other jobs. ``room`` is that of ``nodes``."""

    job: W
    room: Room
    nodes: Sequence[NodeView]
    kept: Sequence[Reservation[W]]

    def places(self, demands: Sequence[Demand], gone: Sequence[Holder[W]]) -> list[Placement] | None:
        room = self.room.copy(without(self.nodes, [hold for one in gone for hold in one.holds]))
        for reservation in self.kept:
            room.set_aside(reservation.demands, reservation.nodes)
        return room.place(demands, self.job.id, self.job.avoid, self.job.vc)
