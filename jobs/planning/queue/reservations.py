"""Chooses the nodes that are reserved for a job which does not fit now. Pure.

Nothing is remembered from pass to pass: the nodes are chosen anew, where the room comes first as far as running jobs
say when they end, else where the least is still to wait for. What is reserved is given to nobody but guests, who leave
at once, so what there is to wait for never grows, and the choice stays where it is until another node is strictly
nearer. Who may be such a guest, and until when, is said at the end. How much it may keep idle is the rule of idling/.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heapify, heappop, heapreplace
from itertools import accumulate
from typing import Generic

from clusters.placement.fit import Demand, FreeNode, NodeView, Placement, Wanted, asked_of_node
from clusters.placement.free import FreeNodes
from clusters.placement.shares import Hold
from clusters.placement.topology import NEAREST, Domains, Topology
from jobs.planning.queue.scene import JobT, Runner, Scene

Lack = tuple[int, int, int]  # GPUs, cores and MB that must still come free
Rank = tuple[bool, datetime, Lack, float, str]  # of a node, with how much its GPUs are wanted: the smallest is nearest
Ends = Mapping[str, Sequence[tuple[datetime, Hold]]]  # by node, the first end first
Way = tuple[datetime, Lack, tuple[str, ...]]  # when the room is there, what is missing, and the node of each task
UNKNOWN = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reservation(Generic[JobT]):
    """Room that is reserved for a job: ``nodes`` has the node of each of its tasks, in the order of its demands.
    ``moment`` is when it is likely free, if that can be said of all jobs that hold it. ``yields`` says that its virtual
    cluster would be beyond its guarantee with the job: what is gathered for it is still there for those within
    theirs. ``spared`` are those who leave for it at that moment, as they have then run for long enough."""

    job: JobT
    demands: Sequence[Demand]
    nodes: tuple[str, ...]
    moment: datetime | None = None
    yields: bool = False
    spared: Sequence[Runner[JobT]] = ()

    @property
    def names(self) -> list[str]:
        return sorted(set(self.nodes))


def nearest(
    demands: Sequence[Demand],
    vc: str,
    free_nodes: FreeNodes,
    nodes: Sequence[NodeView],
    reservations: Sequence[Reservation[JobT]],
    ends: Ends,
    now: datetime,
    could: FreeNodes | None = None,
) -> tuple[tuple[str, ...], datetime | None] | None:
    """The node of each task where the room comes first by the known ``ends`` of what runs there or, where they do not
    tell, where the least is still to wait for; of equal nodes that whose GPUs are wanted least, for one that names no
    type. And the moment, if it is known. None where even idle nodes could not hold them all beside the ``reservations``
    of others, or what ``could`` become the job's. ``free_nodes`` are those of ``nodes``. A gang gets one domain of the
    topology where it requires that, and otherwise where that is no later."""
    frees = {
        node.name: free
        for node in nodes
        if node.dedicated_to in ("", vc) and (free := free_nodes.free(node.name)) is not None
    }
    search = _OneByOne(demands, frees, reservations, ends, now, could, free_nodes.wanted)
    asks = demands[0].topology != NEAREST or any(demand.gpus for demand in demands)
    if len(demands) > 1 and asks:
        found = search.in_domains(demands[0].topology, free_nodes.domains)
    else:
        found = search.among(frees)
    if found is not None:
        latest, _, chosen = found
        return chosen, None if latest == UNKNOWN else latest
    if reservations:
        return None
    return _any_way(demands, vc, could.copy() if could else FreeNodes(nodes, empty=True, wanted=free_nodes.wanted))


@dataclass(frozen=True, slots=True)
class _OneByOne(Generic[JobT]):
    """Chooses the nodes of one task after the other, each where the room comes first."""

    demands: Sequence[Demand]
    frees: Mapping[str, FreeNode]
    reservations: Sequence[Reservation[JobT]]
    ends: Ends
    now: datetime
    could: FreeNodes | None
    wanted: Wanted

    def in_domains(self, asked: Topology, domains: Domains) -> Way | None:
        """Where it comes first in one domain of the required level, or in one that is preferred; and in any nodes where
        none is required and these come earlier."""
        best = None if asked.is_required else self.among(self.frees)
        for level in domains.levels(asked):
            there = [{name: 0 for name in names if name in self.frees} for names in domains.at(level).values()]
            ways = [way for names in there if (way := self.among(names)) is not None]
            nearest = min(ways, key=lambda way: (way[:2], sorted(way[2])), default=None)
            if nearest is not None and (best is None or nearest[:2] <= best[:2]):
                return nearest
        return best

    def among(self, names: Collection[str]) -> Way | None:
        """The nodes of all tasks among these. The rank of a node is worked out when it may be the nearest one."""
        demands, ends, now = self.demands, self.ends, self.now
        spots: dict[str, _Spot] = {}

        def spot(name: str) -> _Spot:
            if name not in spots:
                whole = self.could.free(name) if self.could else None
                spots[name] = _Spot(self.frees[name], ends.get(name, ()), now, whole, self.wanted)
            return spots[name]

        for reservation in self.reservations:
            for demand, name in zip(reservation.demands, reservation.nodes, strict=True):
                if name in names:
                    spot(name).put(demand)
        order = sorted(
            range(len(demands)), key=lambda at: (-demands[at].gpus, -demands[at].cpus, -demands[at].memory_mb)
        )
        chosen: dict[int, str] = {}
        heap: list[tuple[Rank, bool]] = []  # with whether it is worked out, or else at least so
        latest, lacks = now, (0, 0, 0)
        for place, at in enumerate(order):
            demand = demands[at]
            if not place or asked_of_node(demand) != asked_of_node(demands[order[place - 1]]):
                heap = [(_least_rank(self.frees[name], demand, ends.get(name, ()), now), False) for name in names]
                heapify(heap)
            while heap and not (heap[0][1] and spot(heap[0][0][-1]).whole.fits(demand)):
                if heap[0][1]:
                    heappop(heap)
                else:
                    heapreplace(heap, (spot(heap[0][0][-1]).rank(demand), True))
            if not heap:
                return None
            (_, moment, lack, _, name), _ = heap[0]
            spot(name).put(demand)
            chosen[at], latest = name, max(latest, moment)
            lacks = lacks[0] + lack[0], lacks[1] + lack[1], lacks[2] + lack[2]
            heapreplace(heap, (spot(name).rank(demand), True))
        return latest, lacks, tuple(chosen[at] for at in range(len(demands)))


def _least_rank(free: FreeNode, demand: Demand, ends: Sequence[tuple[datetime, Hold]], now: datetime) -> Rank:
    """What the rank of a node is at least, by little work."""
    node, moment = free.node, now
    if demand.gpus > len(free.gpus) or demand.cpus > free.cpus or demand.memory_mb > free.memory_mb:
        moment = max(ends[0][0], now) if ends else UNKNOWN
    return node.dedicated_to == "", moment, (0, 0, 0), 0.0, node.name


class _Spot:
    """A node as a reservation sees it: what it has in all, what of that is free now, and what comes free when."""

    __slots__ = ("_sums", "_whole", "debt", "ends", "free", "node", "now", "wanted")

    def __init__(
        self,
        free: FreeNode,
        ends: Sequence[tuple[datetime, Hold]],
        now: datetime,
        could: FreeNode | None,
        wanted: Wanted,
    ) -> None:
        self.node, self.ends, self.now, self.wanted = free.node, ends, now, wanted
        self.free = free
        self._whole = could.copy() if could else None
        self.debt: Lack = (0, 0, 0)  # that those put here still lack
        self._sums: dict[str, Sequence[Sequence[int]]] = {}  # by type of GPU

    @property
    def whole(self) -> FreeNode:
        """All that the node has beside those put here; made for the few nodes that it is asked of."""
        if self._whole is None:
            self._whole = FreeNode(self.node, empty=True)
        return self._whole

    def rank(self, demand: Demand) -> Rank:
        lack, want = self._lacks(demand), 0.0
        if self.wanted and demand.gpus and not demand.gpu_type:  # as in clusters/placement/free.py
            want = max(sorted(self.wanted.get(kind, 0.0) for _, kind in self.node.gpus)[: demand.gpus], default=0.0)
        return self.node.dedicated_to == "", self._moment(demand, lack), lack, want, self.node.name

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
        wanted = [short + owed for short, owed in zip(lack, self.debt, strict=True)]
        at = max(map(bisect_left, self._given_back(demand.gpu_type), wanted))
        return max(self.ends[at][0], self.now) if at < len(self.ends) else UNKNOWN

    def _given_back(self, gpu_type: str) -> Sequence[Sequence[int]]:
        """How many GPUs of the type, cores and MB have come back by each of the ends."""
        if gpu_type not in self._sums:
            kinds = dict(self.node.gpus) if gpu_type else {}
            holds = [hold for _, hold in self.ends]
            gpus = (sum(not kinds or kinds.get(id) == gpu_type for id in hold.gpu_ids) for hold in holds)
            each = gpus, (hold.cpus for hold in holds), (hold.memory_mb for hold in holds)
            self._sums[gpu_type] = [list(accumulate(numbers)) for numbers in each]
        return self._sums[gpu_type]

    def put(self, demand: Demand) -> None:
        lack = self._lacks(demand)
        self.debt = (self.debt[0] + lack[0], self.debt[1] + lack[1], self.debt[2] + lack[2])
        self.whole.put(demand, 0)
        self.free = self.free.copy()
        self.free.set_aside(demand)
        self.free.cpus, self.free.memory_mb = max(0, self.free.cpus), max(0, self.free.memory_mb)


def _any_way(demands: Sequence[Demand], vc: str, could: FreeNodes) -> tuple[tuple[str, ...], None] | None:
    """Some way to put them there: a packing that one task after the other misses."""
    placements = could.place(demands, vc=vc)
    return None if placements is None else (tuple(place.node for place in placements), None)


# --- guests --------------------------------------------------------------------------------------------------------


def may_be_guest(job: JobT, scene: Scene[JobT]) -> bool:
    """Whether it agreed to leave at any moment, or something tells when it ends, and it was not evicted too often."""
    if job.guest_evictions >= scene.policy.guest_evictions:
        return False
    return job.is_preemptible or job.most_seconds is not None or bool(scene.lengths())


def end_of_guest(job: JobT, scene: Scene[JobT], latest: datetime | None, too_late: datetime | None) -> datetime | None:
    """When one that may be a guest leaves the room of others at the latest; None where that is too late. ``latest`` is
    the last of the moments at which reserved room is likely free, ``too_late`` an end of the like that was too late for
    all."""
    if job.is_preemptible:
        return scene.rounded_now  # its owner agreed that it leaves at any moment
    end = scene.likely_end(job)
    if end is None or (too_late is not None and end >= too_late):
        return None
    return end if latest is not None and end <= latest else None


def leaves_in_time(
    job: JobT, placements: Sequence[Placement], end: datetime, reservations: Sequence[Reservation[JobT]], now: datetime
) -> bool:
    """Whether it likely leaves before the room on its nodes is free for those who have it reserved; if it does not, it
    is evicted then. Where the room comes at this very moment, a guest would only hold that up."""
    nodes = {place.node for place in placements}
    moments = [each.moment for each in reservations if not nodes.isdisjoint(each.nodes)]
    if any(moment is not None and moment <= now for moment in moments):
        return False
    return job.is_preemptible or all(moment is not None and end <= moment for moment in moments)
