"""Chooses the nodes that are kept for a job which does not fit now. Pure.

Nothing is remembered from pass to pass: the nodes are chosen anew, where the least is still to wait for. What is kept
is given to nobody but guests, who leave at once, so that the least to wait for never grows, and the choice stays where
it is until another node is strictly nearer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Generic

from clusters.placement.fit import Demand, Free, NodeView
from clusters.placement.room import Room
from clusters.placement.shares import Hold, freed
from jobs.planning.queue.scene import HasId, Scene, W

Lack = tuple[int, int, int]  # GPUs, cores and MB that must still come free


@dataclass(frozen=True, slots=True)
class Reservation(Generic[W]):
    """Room that is kept for a job: ``nodes`` has the node of each of its tasks, in the order of its demands."""

    job: W
    demands: Sequence[Demand]
    nodes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return sorted(set(self.nodes))


def nearest(
    demands: Sequence[Demand], vc: str, nodes: Iterable[NodeView], kept: Sequence[Reservation[W]]
) -> tuple[str, ...] | None:
    """The node of each task where the least is still to wait for, beside what is kept for others; None where even idle
    nodes could not hold them all."""
    spots = {node.name: _Spot(node) for node in nodes if node.offered and node.serves(vc)}
    for reservation in kept:
        for demand, name in zip(reservation.demands, reservation.nodes, strict=True):
            if name in spots:
                spots[name].put(demand)
    order = sorted(range(len(demands)), key=lambda at: (-demands[at].gpus, -demands[at].cpus, -demands[at].memory_mb))
    found: dict[int, str] = {}
    heap: list[tuple[bool, Lack, str]] = []
    for place, at in enumerate(order):
        demand = demands[at]
        if not place or not _is_alike(demand, demands[order[place - 1]]):
            heap = [(spot.node.dedicated_to == "", spot.lacks(demand), name) for name, spot in spots.items()]
            heapify(heap)
        while heap and not spots[heap[0][2]].whole.fits(demand):
            heappop(heap)
        if not heap:
            return _any_way(demands, vc, nodes) if not kept else None
        pooled, _, name = heappop(heap)
        spots[name].put(demand)
        found[at] = name
        heappush(heap, (pooled, spots[name].lacks(demand), name))
    return tuple(found[at] for at in range(len(demands)))


class _Spot:
    """A node as a reservation sees it: what it has in all, and what of that is free now."""

    __slots__ = ("cpus", "free", "memory_mb", "node", "whole")

    def __init__(self, node: NodeView) -> None:
        self.node, self.whole, self.free = node, Free(node, empty=True), Free(node)

    def lacks(self, demand: Demand) -> Lack:
        free = self.free
        return (
            max(0, demand.gpus - free.free_gpus(demand.gpu_type)),
            max(0, demand.cpus - free.cpus),
            max(0, demand.memory_mb - free.memory_mb),
        )

    def put(self, demand: Demand) -> None:
        self.whole.put(demand, 0)
        self.free.set_aside(demand)


def _is_alike(one: Demand, other: Demand) -> bool:
    return (one.gpus, one.cpus, one.memory_mb, one.gpu_type, one.ports) == (
        other.gpus,
        other.cpus,
        other.memory_mb,
        other.gpu_type,
        other.ports,
    )


def _any_way(demands: Sequence[Demand], vc: str, nodes: Iterable[NodeView]) -> tuple[str, ...] | None:
    """Some way to put them on idle nodes: a packing that one task after the other misses."""
    places = Room(nodes, empty=True).place(demands, vc=vc)
    return None if places is None else tuple(place.node for place in places)


def known_moment(
    reservation: Reservation[W],
    scene: Scene[W],
    nodes: Sequence[NodeView],
    running: Sequence[tuple[W, Sequence[HasId]]],
) -> datetime | None:
    """When its room is free at the latest, by the most that running jobs may run (``extras.maxRunSeconds``); None where
    that is not known."""
    views = {node.name: node for node in nodes}
    ends: dict[str, list[tuple[datetime, Hold]]] = {}
    for job, tasks in running:
        end = known_end(job)
        for hold in scene.held_by(tasks) if end is not None else ():
            assert end is not None
            ends.setdefault(hold.node, []).append((end, hold))
    moments = []
    for name in reservation.names:
        mine = [demand for demand, at in zip(reservation.demands, reservation.nodes, strict=True) if at == name]
        moment = _when_free(views[name], mine, sorted(ends.get(name, ()), key=lambda one: one[0]), scene.now)
        if moment is None:
            return None
        moments.append(moment)
    return max(moments)


def known_end(job: W) -> datetime | None:
    if job.started_at is None or job.most_seconds is None:
        return None
    return job.started_at + timedelta(seconds=job.most_seconds)


def _when_free(
    node: NodeView, demands: Sequence[Demand], ends: Sequence[tuple[datetime, Hold]], now: datetime
) -> datetime | None:
    moment = now
    for count in range(len(ends) + 1):
        if count:
            moment = max(now, ends[count - 1][0])
        [view] = freed([node], [hold for _, hold in ends[:count]])
        if Room([view]).place(demands, vc=node.dedicated_to) is not None:
            return moment
    return None
