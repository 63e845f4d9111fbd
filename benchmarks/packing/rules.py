"""The rules of others by which a task gets its node: random fit, best fit, dot product (Tetris, SIGCOMM '14), and
fragmentation gradient descent (FGD, USENIX ATC '23) in whole GPUs.

Nodes of which as much is free are one room with a number: a rule looks at each room once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from benchmarks.packing.trace import NodeShape, Shape

Room = NodeShape  # what is free on a node


class Ruled:
    """A cluster on which one rule places. ``cost`` of a task in a room: it goes where that is least."""

    def __init__(self, nodes: Sequence[NodeShape], cost: Callable[[Shape, Room], float]) -> None:
        self._rooms, self._cost = Counter(nodes), cost

    def place(self, task: Shape) -> bool:
        rooms = [room for room in self._rooms if fits(task, room)]
        if rooms:
            self._take(task, min(rooms, key=lambda room: (self._cost(task, room), *_sorted(room))))
        return bool(rooms)

    def _take(self, task: Shape, room: Room) -> None:
        self._rooms[room] -= 1
        if not self._rooms[room]:
            del self._rooms[room]
        self._rooms[after(task, room)] += 1


class RandomFit(Ruled):
    def __init__(self, nodes: Sequence[NodeShape], seed: int) -> None:
        super().__init__(nodes, lambda task, room: 0.0)
        self._random = Random(seed)

    def place(self, task: Shape) -> bool:
        rooms = {room: number for room, number in self._rooms.items() if fits(task, room)}
        if rooms:
            self._take(task, self._random.choices([*rooms], [*rooms.values()])[0])
        return bool(rooms)


def best_fit(nodes: Sequence[NodeShape]) -> Callable[[Shape, Room], float]:
    """The least that is left, each resource as a part of the largest node's."""
    cpus, memory_mb, gpus = _largest(nodes)

    def cost(task: Shape, room: Room) -> float:
        left = after(task, room)
        return left.cpus / cpus + left.memory_mb / memory_mb + left.gpus / gpus

    return cost


def dot_product(nodes: Sequence[NodeShape]) -> Callable[[Shape, Room], float]:
    """The room whose free resources are most like what the task asks for."""
    cpus, memory_mb, gpus = _largest(nodes)

    def cost(task: Shape, room: Room) -> float:
        return -(
            task.cpus * room.cpus / cpus**2
            + task.memory_mb * room.memory_mb / memory_mb**2
            + task.gpus * room.gpus / gpus**2
        )

    return cost


def least_fragments(usual: Sequence[tuple[float, Shape]]) -> Callable[[Shape, Room], float]:
    """FGD: where the GPUs that usual tasks cannot use become the fewest more."""
    known: dict[Room, float] = {}
    costs: dict[tuple[Shape, Room], float] = {}

    def fragments(room: Room) -> float:
        if room not in known:
            known[room] = room.gpus * sum(part for part, shape in usual if not fits(shape, room))
        return known[room]

    def cost(task: Shape, room: Room) -> float:
        if (task, room) not in costs:
            costs[task, room] = round(fragments(after(task, room)) - fragments(room), 9)
        return costs[task, room]

    return cost


def fits(task: Shape, room: Room) -> bool:
    return (
        task.gpus <= room.gpus
        and task.cpus <= room.cpus
        and task.memory_mb <= room.memory_mb
        and (not task.gpus or task.gpu_type in ("", room.gpu_type))
    )


def after(task: Shape, room: Room) -> Room:
    """What is left of the room beside the task."""
    cpus, memory_mb, gpus = room.cpus - task.cpus, room.memory_mb - task.memory_mb, room.gpus - task.gpus
    return replace(room, cpus=cpus, memory_mb=memory_mb, gpus=gpus)


def _largest(nodes: Sequence[NodeShape]) -> tuple[int, int, int]:
    return max(node.cpus for node in nodes), max(node.memory_mb for node in nodes), max(node.gpus for node in nodes)


def _sorted(room: Room) -> tuple[int, int, int, str]:
    """Breaks ties as placements do: the fullest first."""
    return room.gpus, room.cpus, room.memory_mb, room.gpu_type
