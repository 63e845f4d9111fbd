"""EASY backfill with foresight: it knows when every run ends. Pure.

The first job that does not fit has the moment reserved at which it will; others start when that moment stays as it is:
those that end before it anywhere, those that run longer only on room that the first one will not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusters.placement.fit import Demand, NodeView, Placement, copies
from clusters.placement.room import Room
from jobs.planning.replay.cluster import Cluster, Run, Start
from jobs.planning.replay.policies import Decision, Fifo, Shelf

Amount = tuple[int, int, int]  # cores, MB, GPUs
_NONE: Amount = (0, 0, 0)


class Easy(Fifo):
    name = "EASY backfill, knowing all ends"

    def decide(self, cluster: Cluster) -> Decision:
        queue, starts = cluster.in_order(), list[Start]()
        room = Room(cluster.nodes)
        for at, run in enumerate(queue):
            places = room.place(run.shape, run.id, vc=run.vc)
            if places is None:
                return [*starts, *_behind(cluster, starts, room, run, queue[at + 1 :])], ()
            starts.append(Start(run, places))
        return starts, ()


def _behind(cluster: Cluster, starts: Sequence[Start], room: Room, head: Run, queue: Sequence[Run]) -> list[Start]:
    ends = _Ends(cluster, starts)
    reserved = ends.first_fit(head)
    if reserved is None:  # even idle nodes do not hold it: it keeps nobody waiting
        shelf = Shelf(room)
        return [start for run in queue if (start := shelf.start(run)) is not None]
    moment, kept = reserved
    beside = Room(cluster.nodes)
    for start in starts:
        beside.take(start.run.shape, start.places)
    _set_aside(beside, kept)
    short, long = Shelf(room), Shelf(beside)
    used: dict[str, Amount] = {}  # by short runs
    found: list[Start] = []
    for run in queue:
        if cluster.now + run.seconds <= moment:
            start = short.start(run)
            if start is not None:
                _set_aside(beside, _beyond(start, kept, used))
        else:
            start = long.start(run)
            if start is not None:
                room.set_aside(run.shape, [place.node for place in start.places])
        if start is not None:  # which GPUs is open: the two rooms do not agree on that
            found.append(Start(run, [replace(place, gpu_ids=()) for place in start.places]))
    return found


def _beyond(start: Start, kept: dict[str, Amount], used: dict[str, Amount]) -> dict[str, Amount]:
    """What a short run takes of each node beyond what is kept there for the head, which it may use until then."""
    found: dict[str, Amount] = {}
    for demand, place in zip(start.run.shape, start.places, strict=True):
        most, before = kept.get(place.node, _NONE), used.get(place.node, _NONE)
        after = _plus(before, _size(demand))
        used[place.node] = after
        more = _less(_less(after, most), _less(before, most))
        found[place.node] = _plus(found.get(place.node, _NONE), more)
    return found


def _set_aside(room: Room, amounts: dict[str, Amount]) -> None:
    for node, (cpus, memory_mb, gpus) in amounts.items():
        if cpus or memory_mb or gpus:
            room.set_aside([Demand("", "", 0, cpus, memory_mb, gpus, "")], [node])


@dataclass(slots=True)
class _End:
    at: float
    run: Run
    places: Sequence[Placement]


class _Ends:
    """What ends when, of what runs and of what starts now."""

    def __init__(self, cluster: Cluster, starts: Sequence[Start]) -> None:
        self.cluster, self.starts = cluster, starts
        ends = [_End(one.ends, one.run, one.places) for one in cluster.running.values()]
        ends += [_End(cluster.now + one.run.seconds, one.run, one.places) for one in starts]
        self.ends = sorted(ends, key=lambda one: (one.at, one.run.id))

    def first_fit(self, head: Run) -> tuple[float, dict[str, Amount]] | None:
        """When the head fits if nothing else starts, and what of the room that is free now must be kept for it."""
        room = Room(self.cluster.nodes)
        for start in self.starts:
            room.take(start.run.shape, start.places)
        enough = _Enough(head, self.cluster.nodes, self.starts)
        back: dict[str, Amount] = {}
        for end in self.ends:
            room.give_back(end.run.shape, end.places)
            for demand, place in zip(end.run.shape, end.places, strict=True):
                back[place.node] = _plus(back.get(place.node, _NONE), _size(demand))
                enough.give_back(demand, place.node)
            if enough.is_reached and (places := room.place(head.shape, head.id, vc=head.vc)) is not None:
                return end.at, _needed(head, places, back)
        return None


class _Enough:
    """Whether the nodes, one by one, have room for as many tasks as the head has: a quick look before a real one."""

    def __init__(self, head: Run, nodes: Sequence[NodeView], starts: Sequence[Start]) -> None:
        self.shape = min(head.shape, key=lambda one: (one.gpus, one.cpus, one.memory_mb))
        self.missing = len(head.shape)
        self.free: dict[str, Amount] = {}
        self.copies: dict[str, int] = {}
        taken: dict[str, Amount] = {}
        for start in starts:
            for demand, place in zip(start.run.shape, start.places, strict=True):
                taken[place.node] = _plus(taken.get(place.node, _NONE), _size(demand))
        for node in nodes:
            has = node.cpus - node.used_cpus, node.memory_mb - node.used_memory_mb, len(node.gpus) - len(node.used_gpus)
            if node.offered and node.serves(head.vc):
                self.free[node.name] = _minus(has, taken.get(node.name, _NONE))
                self._count(node.name)

    @property
    def is_reached(self) -> bool:
        return self.missing <= 0

    def give_back(self, demand: Demand, node: str) -> None:
        if node in self.free:
            self.free[node] = _plus(self.free[node], _size(demand))
            self._count(node)

    def _count(self, node: str) -> None:
        cpus, memory_mb, gpus = self.free[node]
        number = copies(self.shape, cpus, memory_mb, gpus) if min(self.free[node]) >= 0 else 0
        self.missing -= number - self.copies.get(node, 0)
        self.copies[node] = number


def _needed(head: Run, places: Sequence[Placement], back: dict[str, Amount]) -> dict[str, Amount]:
    wants: dict[str, Amount] = {}
    for demand, place in zip(head.shape, places, strict=True):
        wants[place.node] = _plus(wants.get(place.node, _NONE), _size(demand))
    return {node: _less(amount, back.get(node, _NONE)) for node, amount in wants.items()}


def _size(demand: Demand) -> Amount:
    return demand.cpus, demand.memory_mb, demand.gpus


def _plus(one: Amount, other: Amount) -> Amount:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _minus(one: Amount, other: Amount) -> Amount:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


def _less(one: Amount, other: Amount) -> Amount:
    """One without the other, and nothing below nothing."""
    cpus, memory_mb, gpus = _minus(one, other)
    return max(0, cpus), max(0, memory_mb), max(0, gpus)
