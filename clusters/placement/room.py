"""Places whole gangs into the free space of one pass, or nothing of them. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from clusters.placement.fit import Demand, Free, Labels, Likeness, NodeView, Placement, bars, copies

TOPOLOGIES = 3  # tried for a gang that fits on no single node


class Room:
    """The free space of all offered nodes during one pass; each placed gang makes it smaller.

    Nodes that are alike are in one group, and groups are on shelves by their number of free GPUs. A search goes from
    the fullest nodes that could do to emptier ones, and looks at a handful of groups instead of every node.
    """

    # Groups looked at by one search before it gives up: it ends in milliseconds also when much nearly fits.
    EFFORT = 5_000

    def __init__(self, nodes: Iterable[NodeView], *, empty: bool = False) -> None:
        """``empty``: as if nothing ran on the nodes."""
        self._shelves: dict[int, dict[Likeness, list[Free]]] = {}  # each group by name: no history shows
        self._effort = 0
        self._serving = [""]  # whose nodes the current search looks at
        self._nodes = [node for node in nodes if node.offered]
        self._marked = [node for node in self._nodes if node.marks]
        self._owners = {node.dedicated_to for node in self._nodes}
        self._having: dict[str, frozenset[str]] = {}  # image -> names of nodes
        self._lacking: dict[Labels, frozenset[str]] = {frozenset(): frozenset()}  # labels -> names of nodes
        self._tried: dict[tuple[object, ...], list[Callable[[str], bool]]] = {}  # where tasks of a kind may go
        self._frees = {node.name: Free(node, empty=empty) for node in self._nodes}
        for free in self._frees.values():
            self._shelves.setdefault(len(free.gpus), {}).setdefault(free.likeness(), []).append(free)
        for shelf in self._shelves.values():
            for group in shelf.values():
                group.sort(key=_name)

    def copy(self, nodes: Iterable[NodeView] = ()) -> Room:
        """As much room, taken and given back apart from this one; a fraction of the work of a new one. Of ``nodes``,
        which differ in nothing but what is taken on them, it has these in place of its own."""
        made = Room.__new__(Room)
        made._shelves = {
            gpus: {likeness: group[:] for likeness, group in shelf.items()} for gpus, shelf in self._shelves.items()
        }
        made._frees, made._effort, made._serving = dict(self._frees), 0, [""]
        made._nodes, made._marked, made._owners = self._nodes, self._marked, self._owners
        made._having, made._lacking, made._tried = self._having, self._lacking, self._tried
        for node in nodes:
            if (free := made._frees.get(node.name)) is not None and free.node is not node:
                made._leave(free)
                made._join(Free(node))
        return made

    def free(self, node: str) -> Free | None:
        """What is free on an offered node; to be copied before it is changed."""
        return self._frees.get(node)

    def place(
        self, demands: Sequence[Demand], salt: int = 0, avoid: frozenset[str] = frozenset(), vc: str = ""
    ) -> list[Placement] | None:
        """Places for all demands of a job of the virtual cluster ``vc``, in their order, or None and nothing is taken.
        Its own nodes come first; then nodes that have a task's image, and those to ``avoid`` last. A gang with GPUs
        goes to one node if it fits there, else to nodes of one ``topology``, else anywhere."""
        self._serving = [vc, ""] if vc and vc in self._owners else [""]
        if len(demands) == 1:  # nothing is ever gone back on
            best = next(self._candidates(demands[0], avoid, None), None)
            return None if best is None else [self._put(best.node.name, demands[0], salt)]
        if not self._could(demands):
            return None
        order = sorted(range(len(demands)), key=lambda at: _size(demands[at]), reverse=True)
        ordered = [demands[at] for at in order]
        found = None
        for near in (*self._near(ordered, avoid), None):
            found = self._search(ordered, salt, avoid, near)
            if found is not None:
                break
        if found is None:
            return None
        by_order = dict(zip(order, found, strict=True))
        return [by_order[at] for at in range(len(demands))]

    def give_back(self, demands: Sequence[Demand], places: Sequence[Placement]) -> None:
        """Take back what ``place`` has given out."""
        for demand, place in zip(demands, places, strict=True):
            self._take_back(place, demand)

    def take(self, demands: Sequence[Demand], places: Sequence[Placement]) -> None:
        """Take what another Room of the same nodes has given out."""
        for demand, place in zip(demands, places, strict=True):
            if place.node in self._frees:
                free = self._taken_out(place.node)
                free.take(demand, place)
                self._join(free)

    def set_aside(self, demands: Sequence[Demand], nodes: Sequence[str]) -> None:
        """Keep for each demand as much of what it needs on its node as is free there."""
        for demand, name in zip(demands, nodes, strict=True):
            if name in self._frees:
                free = self._taken_out(name)
                free.set_aside(demand)
                self._join(free)

    def _near(self, demands: Sequence[Demand], avoid: frozenset[str]) -> Iterator[frozenset[str]]:
        """Where a gang with GPUs would be close together: the tightest node with room for all of it, then the fullest
        of the topologies that could do."""
        gpus = sum(demand.gpus for demand in demands)
        if len(demands) == 1 or not gpus or len({demand.gpu_type for demand in demands}) > 1:
            return
        cpus, memory_mb = sum(demand.cpus for demand in demands), sum(demand.memory_mb for demand in demands)
        whole = replace(demands[0], gpus=gpus, cpus=cpus, memory_mb=memory_mb, ports=())
        one = next(self._candidates(whole, avoid, None), None)
        if one is not None:
            yield frozenset((one.node.name,))
        free = {names: sum(len(self._frees[name].gpus) for name in names) for names in self._topologies}
        could = [names for names, number in free.items() if number >= gpus]
        yield from sorted(could, key=lambda names: (free[names], min(names)))[:TOPOLOGIES]

    @cached_property
    def _topologies(self) -> list[frozenset[str]]:
        """The nodes that carry the same label ``topology``; nothing where all do, or none."""
        found: dict[str, set[str]] = {}
        for node in self._nodes:
            for label, value in node.labels:
                if label == "topology":
                    found.setdefault(value, set()).add(node.name)
        return [frozenset(names) for names in found.values() if len(names) < len(self._nodes)]

    def _could(self, demands: Sequence[Demand]) -> bool:
        """A quick check: for each shape alone, the nodes together must have room for all its tasks."""
        shapes: dict[tuple[object, ...], tuple[Demand, int]] = {}
        for demand in demands:
            key = (demand.role, demand.cpus, demand.memory_mb, demand.gpus, demand.gpu_type)
            shapes[key] = (demand, shapes[key][1] + 1 if key in shapes else 1)
        return all(self._has_room_for(number, shape) for shape, number in shapes.values())

    def _has_room_for(self, number: int, shape: Demand) -> bool:
        for gpus, shelf in self._shelves.items():
            if gpus < shape.gpus:
                continue
            for group in shelf.values():
                free = group[0]
                if free.node.dedicated_to in self._serving and free.has_room(shape):
                    number -= len(group) * copies(shape, free.cpus, free.memory_mb, free.free_gpus(shape.gpu_type))
                    if number <= 0:
                        return True
        return False

    def _search(
        self, demands: Sequence[Demand], salt: int, avoid: frozenset[str], near: frozenset[str] | None
    ) -> list[Placement] | None:
        """Depth first, tightest node first. The first path is the usual best fit; going back finds packings that it
        misses, within EFFORT. ``near`` are the only nodes looked at."""
        done: list[Placement] = []
        choices: list[Iterator[Free]] = []
        self._effort = self.EFFORT + 10 * len(demands)
        while len(done) < len(demands):
            if len(choices) == len(done):  # a demand reached for the first time on this path
                choices.append(self._candidates(demands[len(done)], avoid, near))
            best = next(choices[-1], None)
            if best is not None:
                done.append(self._put(best.node.name, demands[len(done)], salt))
                continue
            choices.pop()
            if not done:
                return None
            self._take_back(done.pop(), demands[len(done)])
            if self._effort <= 0:
                choices[-1] = iter(())
        return done

    def _candidates(self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None) -> Iterator[Free]:
        """One node of each group where the task fits, the best first. Between two of them the room is unchanged."""
        for owner in self._serving:
            for is_wanted in self._tiers(demand, avoid, near):
                for gpus in sorted(gpus for gpus in self._shelves if gpus >= demand.gpus):
                    yield from self._of_shelf(self._shelves[gpus], demand, owner, is_wanted)

    def _of_shelf(
        self, shelf: dict[Likeness, list[Free]], demand: Demand, owner: str, is_wanted: Callable[[str], bool]
    ) -> Iterator[Free]:
        """The tightest group first; in it only the first node is looked for, and only when its turn comes."""
        self._effort -= len(shelf)
        groups = [
            group for group in shelf.values() if group[0].node.dedicated_to == owner and group[0].has_room(demand)
        ]
        for group in sorted(groups, key=_tightness) if len(groups) > 1 else groups:
            for free in group:
                if is_wanted(free.node.name) and free.has_ports(demand.ports):
                    yield free
                    break

    def _tiers(
        self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None
    ) -> Iterable[Callable[[str], bool]]:
        """Which nodes to look at, one tier after the other: those that have the image, others, those to avoid."""
        key = demand.image, demand.labels, avoid, demand.gpus > 0
        if near is not None:
            return self._ways(demand, avoid, near)
        if key not in self._tried:
            self._tried[key] = list(self._ways(demand, avoid, None))
        return self._tried[key]

    def _ways(
        self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None
    ) -> Iterator[Callable[[str], bool]]:
        barred = self._without(demand.labels).union(node.name for node in self._marked if bars(node, demand))
        last = avoid - barred
        best = self._with_image(demand.image) - last - barred
        if near is not None:
            yield (near - barred - last).__contains__
            return
        if best:
            yield best.__contains__
        others = best | last | barred
        yield lambda name: name not in others
        if last:
            yield last.__contains__

    def _with_image(self, image: str) -> frozenset[str]:
        if image not in self._having:
            self._having[image] = frozenset(node.name for node in self._nodes if image in node.images)
        return self._having[image]

    def _without(self, labels: Labels) -> frozenset[str]:
        if labels not in self._lacking:
            self._lacking[labels] = frozenset(node.name for node in self._nodes if not labels <= node.labels)
        return self._lacking[labels]

    def _put(self, node: str, demand: Demand, salt: int) -> Placement:
        free = self._taken_out(node)
        place = free.put(demand, salt)
        self._join(free)
        return place

    def _take_back(self, place: Placement, demand: Demand) -> None:
        free = self._taken_out(place.node)
        free.take_back(demand, place)
        self._join(free)

    def _taken_out(self, node: str) -> Free:
        """What is free on the node, to be changed and joined again; copies of this room keep theirs."""
        free = self._frees[node]
        self._leave(free)
        return free.copy()

    def _join(self, free: Free) -> None:
        self._frees[free.node.name] = free
        shelf = self._shelves.setdefault(len(free.gpus), {})
        insort(shelf.setdefault(free.likeness(), []), free, key=_name)

    def _leave(self, free: Free) -> None:
        shelf, likeness = self._shelves[len(free.gpus)], free.likeness()
        group = shelf[likeness]
        del group[bisect_left(group, _name(free), key=_name)]
        if not group:
            del shelf[likeness]


def _tightness(group: list[Free]) -> tuple[int, int, str]:
    free = group[0]
    return free.cpus, free.memory_mb, free.node.name


def _name(free: Free) -> str:
    return free.node.name


def _size(demand: Demand) -> tuple[int, int, int, bool]:
    return demand.gpus, demand.cpus, demand.memory_mb, any(port.begin_at for port in demand.ports)
