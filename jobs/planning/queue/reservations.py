"""Chooses the nodes that are kept for a job which does not fit now. Pure.

Nothing is remembered from pass to pass: the nodes are chosen anew, where the room comes first as far as running jobs
say when they end, else where the least is still to wait for. What is kept is given to nobody but guests, who leave at
once, so what there is to wait for never grows, and the choice stays where it is until another node is strictly nearer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heapify, heappop, heapreplace
from typing import Generic

from clusters.placement.fit import Demand, Free, NodeView
from clusters.placement.room import Room
from clusters.placement.shares import Hold
from jobs.planning.queue.scene import W

Lack = tuple[int, int, int]  # GPUs, cores and MB that must still come free
Rank = tuple[bool, datetime, Lack, str]  # of a node: the smallest is the nearest
Ranks = dict[tuple[str, int, int, int, str], tuple[Free, Rank]]  # by node and what is asked of it
Ends = Mapping[str, Sequence[tuple[datetime, Hold]]]  # by node, the first end first
UNKNOWN = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reservation(Generic[W]):
    """Room that is kept for a job: ``nodes`` has the node of each of its tasks, in the order of its demands. ``moment``
    is when it is likely free, if that can be said of all jobs that hold it."""

    job: W
    demands: Sequence[Demand]
    nodes: tuple[str, ...]
    moment: datetime | None = None

    @property
    def names(self) -> list[str]:
        return sorted(set(self.nodes))


def nearest(
    demands: Sequence[Demand],
    vc: str,
    room: Room,
    nodes: Sequence[NodeView],
    kept: Sequence[Reservation[W]],
    ends: Ends,
    now: datetime,
    known: Ranks | None = None,
) -> tuple[tuple[str, ...], datetime | None] | None:
    """The node of each task where the room comes first by the known ``ends`` of what runs there or, where they do not
    tell, where the least is still to wait for; and the moment, if it is known. None where even idle nodes could not
    hold them all beside what is ``kept`` for others. ``room`` is that of ``nodes``. ``known`` is for questions about
    other jobs with the same ``ends`` and ``now``: what was worked out for one is not for the next."""
    known = {} if known is None else known
    spots = {
        node.name: _Spot(free, ends.get(node.name, ()), now)
        for node in nodes
        if node.serves(vc) and (free := room.free(node.name)) is not None
    }
    for reservation in kept:
        for demand, name in zip(reservation.demands, reservation.nodes, strict=True):
            if name in spots:
                spots[name].put(demand)
    order = sorted(range(len(demands)), key=lambda at: (-demands[at].gpus, -demands[at].cpus, -demands[at].memory_mb))
    found: dict[int, str] = {}
    heap: list[Rank] = []
    latest = now
    for place, at in enumerate(order):
        demand = demands[at]
        if not place or not _is_alike(demand, demands[order[place - 1]]):
            heap = [spot.first_rank(demand, known) for spot in spots.values()]
            heapify(heap)
        while heap and not spots[heap[0][-1]].whole.fits(demand):
            heappop(heap)
        if not heap:
            return _any_way(demands, vc, nodes) if not kept else None
        moment, name = heap[0][1], heap[0][-1]
        spots[name].put(demand)
        found[at], latest = name, max(latest, moment)
        heapreplace(heap, spots[name].rank(demand))
    return tuple(found[at] for at in range(len(demands))), None if latest == UNKNOWN else latest


class _Spot:
    """A node as a reservation sees it: what it has in all, what of that is free now, and what comes free when."""

    __slots__ = ("_whole", "debt", "ends", "free", "node", "now")

    def __init__(self, free: Free, ends: Sequence[tuple[datetime, Hold]], now: datetime) -> None:
        self.node, self.ends, self.now = free.node, ends, now
        self.free = free
        self._whole: Free | None = None
        self.debt: Lack = (0, 0, 0)  # that those put here still lack

    @property
    def whole(self) -> Free:
        """All that the node has beside those put here; made for the few nodes that it is asked of."""
        if self._whole is None:
            self._whole = Free(self.node, empty=True)
        return self._whole

    def first_rank(self, demand: Demand, known: Ranks) -> Rank:
        """``rank`` of a node on which nothing may have been put, and nothing taken since it was worked out before."""
        if self._whole is not None:
            return self.rank(demand)
        key = self.node.name, demand.gpus, demand.cpus, demand.memory_mb, demand.gpu_type
        before = known.get(key)
        if before is None or before[0] is not self.free:
            before = known[key] = self.free, self.rank(demand)
        return before[1]

    def rank(self, demand: Demand) -> Rank:
        lack = self._lacks(demand)
        return self.node.dedicated_to == "", self._moment(demand, lack), lack, self.node.name

    def _lacks(self, demand: Demand) -> Lack:
        free = self.free
        return (
            max(0, demand.gpus - free.free_gpus(demand.gpu_type)),
            max(0, demand.cpus - free.cpus),
            max(0, demand.memory_mb - free.memory_mb),
        )

    def _moment(self, demand: Demand, lack: Lack) -> datetime:
        if not any(lack):
            return self.now
        gpus, cpus, memory_mb = lack[0] + self.debt[0], lack[1] + self.debt[1], lack[2] + self.debt[2]
        kinds = dict(self.node.gpus) if demand.gpu_type else {}
        for end, hold in self.ends:
            gpus -= sum(kinds.get(id) == demand.gpu_type for id in hold.gpu_ids) if kinds else len(hold.gpu_ids)
            cpus, memory_mb = cpus - hold.cpus, memory_mb - hold.memory_mb
            if gpus <= 0 and cpus <= 0 and memory_mb <= 0:
                return max(end, self.now)
        return UNKNOWN

    def put(self, demand: Demand) -> None:
        lack = self._lacks(demand)
        self.debt = (self.debt[0] + lack[0], self.debt[1] + lack[1], self.debt[2] + lack[2])
        self.whole.put(demand, 0)
        self.free = self.free.copy()
        self.free.set_aside(demand)
        self.free.cpus, self.free.memory_mb = max(0, self.free.cpus), max(0, self.free.memory_mb)


def _is_alike(one: Demand, other: Demand) -> bool:
    return (one.gpus, one.cpus, one.memory_mb, one.gpu_type, one.ports) == (
        other.gpus,
        other.cpus,
        other.memory_mb,
        other.gpu_type,
        other.ports,
    )


def _any_way(demands: Sequence[Demand], vc: str, nodes: Iterable[NodeView]) -> tuple[tuple[str, ...], None] | None:
    """Some way to put them on idle nodes: a packing that one task after the other misses."""
    places = Room(nodes, empty=True).place(demands, vc=vc)
    return None if places is None else (tuple(place.node for place in places), None)
