"""Places whole gangs into the free space of one pass, or nothing of them. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter

from clusters.placement.fit import Demand, FreeNode, Labels, Likeness, NodeView, Placement, asked_of_node, bars, copies

TOPOLOGIES = 3  # tried for a gang that fits on no single node


@dataclass(slots=True)
class _Step:
    """One step of a search has the tasks of one run that still need a place, where they could go, and the places of
    those that one node took. ``used`` are nodes that were tried with more tasks of the run than they took: they take no
    others."""

    run: int
    tasks: Sequence[Demand]
    used: frozenset[str]
    candidates: Iterator[FreeNode]
    placements: list[Placement] = field(default_factory=list)
    is_reduced: bool = False


class FreeNodes:
    """The free space of all offered nodes during one pass; each placed gang makes it smaller.

    Nodes that are alike are in one group, and groups are on shelves by their number of free GPUs. A search goes from
    the fullest nodes that could do to emptier ones, and looks at a handful of groups instead of every node.
    """

    # Groups looked at by one search that goes back, before it gives up: it ends in milliseconds also when much nearly
    # fits.
    EFFORT = 5_000

    def __init__(self, nodes: Iterable[NodeView], *, empty: bool = False) -> None:
        """``empty``: as if nothing ran on the nodes."""
        self._shelves: dict[int, dict[Likeness, list[FreeNode]]] = {}  # each group by name: no history shows
        self._effort = 0
        self._serving = [""]  # whose nodes the current search looks at
        self._withheld: frozenset[str] = frozenset()  # and which it does not
        self._nodes = [node for node in nodes if node.offered]
        self._marked = [node for node in self._nodes if node.marks]
        self._owners = {node.dedicated_to for node in self._nodes}
        self._having: dict[str, frozenset[str]] = {}  # image -> names of nodes
        self._lacking: dict[Labels, frozenset[str]] = {frozenset(): frozenset()}  # labels -> names of nodes
        self._tried: dict[tuple[object, ...], list[Callable[[str], bool]]] = {}  # where tasks of a kind may go
        self._frees = {node.name: FreeNode(node, empty=empty) for node in self._nodes}
        for free in self._frees.values():
            self._shelves.setdefault(len(free.gpus), {}).setdefault(free.likeness(), []).append(free)
        for shelf in self._shelves.values():
            for group in shelf.values():
                group.sort(key=_name)

    def copy(self, nodes: Iterable[NodeView] = ()) -> FreeNodes:
        """Return as much free, taken and given back apart from this one; a fraction of the work of a new one. Of
        ``nodes``, which differ in nothing but what is taken on them, it has these in place of its own."""
        other = FreeNodes.__new__(FreeNodes)
        other._shelves = {
            gpus: {likeness: group[:] for likeness, group in shelf.items()} for gpus, shelf in self._shelves.items()
        }
        other._frees, other._effort, other._serving, other._withheld = dict(self._frees), 0, [""], frozenset()
        other._nodes, other._marked, other._owners = self._nodes, self._marked, self._owners
        other._having, other._lacking, other._tried = self._having, self._lacking, self._tried
        for node in nodes:
            if (free := other._frees.get(node.name)) is not None and free.node is not node:
                other._leave(free)
                other._join(FreeNode(node))
        return other

    def free(self, node: str) -> FreeNode | None:
        """What is free on an offered node; to be copied before it is changed."""
        return self._frees.get(node)

    def place(
        self,
        demands: Sequence[Demand],
        salt: int = 0,
        avoid: frozenset[str] = frozenset(),
        vc: str = "",
        withheld: frozenset[str] = frozenset(),
    ) -> list[Placement] | None:
        """Places for all demands of a job of the virtual cluster ``vc``, in their order, or None and nothing is taken.
        Its own nodes come first; then nodes that have a task's image, and those to ``avoid`` last. A gang with GPUs
        goes to one node if it fits there, else to nodes of one ``topology``, else anywhere; never to one of
        ``withheld``."""
        self._withheld = withheld
        self._serving = [vc, ""] if vc and vc in self._owners else [""]
        if len(demands) == 1:  # nothing is ever gone back on
            alone = _Step(0, demands, frozenset(), self._candidates(demands[0], avoid, None))
            return alone.placements if self._next(alone, salt) else None
        order = sorted(range(len(demands)), key=lambda at: _size(demands[at]), reverse=True)
        ordered = [demands[at] for at in order]
        runs = _runs(ordered)
        if not self._could(runs):
            return None
        placements = None
        for near in (*self._near(ordered, avoid), None):
            placements = self._search(runs, salt, avoid, near)
            if placements is not None:
                break
        if placements is None:
            return None
        by_order = dict(zip(order, placements, strict=True))
        return [by_order[at] for at in range(len(demands))]

    def give_back(self, demands: Sequence[Demand], placements: Sequence[Placement]) -> None:
        """Take back what ``place`` has given out."""
        self._change(FreeNode.take_back, demands, placements)

    def take(self, demands: Sequence[Demand], placements: Sequence[Placement]) -> None:
        """Take what other FreeNodes of the same nodes have given out."""
        self._change(FreeNode.take, demands, placements)

    def set_aside(self, demands: Sequence[Demand], nodes: Sequence[str]) -> None:
        """Keep for each demand as much of what it needs on its node as is free there."""
        for name, some in groupby(zip(nodes, demands, strict=True), itemgetter(0)):
            if name in self._frees:
                with self._changing(name) as free:
                    for _, demand in some:
                        free.set_aside(demand)

    def _change(
        self,
        change: Callable[[FreeNode, Demand, Placement], None],
        demands: Sequence[Demand],
        placements: Sequence[Placement],
    ) -> None:
        for name, some in groupby(zip(placements, demands, strict=True), lambda one: one[0].node):
            if name in self._frees:
                with self._changing(name) as free:
                    for place, demand in some:
                        change(free, demand, place)

    def _near(self, demands: Sequence[Demand], avoid: frozenset[str]) -> Iterator[frozenset[str]]:
        """Where a gang with GPUs would be close together: the tightest node with room for all of it, then the fullest
        of the topologies that could do."""
        gpus = sum(demand.gpus for demand in demands)
        if len(demands) == 1 or not gpus or len({demand.gpu_type for demand in demands}) > 1:
            return
        cpus, memory_mb = sum(demand.cpus for demand in demands), sum(demand.memory_mb for demand in demands)
        whole = replace(demands[0], gpus=gpus, cpus=cpus, memory_mb=memory_mb, ports=())
        tightest = next(self._candidates(whole, avoid, None), None)
        if tightest is not None:
            yield frozenset((tightest.node.name,))
        free = {names: sum(len(self._frees[name].gpus) for name in names) for names in self._topologies}
        could = [names for names, number in free.items() if number >= gpus]
        yield from sorted(could, key=lambda names: (free[names], min(names)))[:TOPOLOGIES]

    @cached_property
    def _topologies(self) -> list[frozenset[str]]:
        """The nodes that carry the same label ``topology``; nothing where all do, or none."""
        by_label: dict[str, set[str]] = {}
        for node in self._nodes:
            for label, value in node.labels:
                if label == "topology":
                    by_label.setdefault(value, set()).add(node.name)
        return [frozenset(names) for names in by_label.values() if len(names) < len(self._nodes)]

    def _could(self, runs: Sequence[Sequence[Demand]]) -> bool:
        """A quick check: for each shape alone, the nodes together must have room for all its tasks."""
        shapes: dict[tuple[object, ...], tuple[Demand, int]] = {}
        for run in runs:
            task = run[0]
            key = (task.role, task.cpus, task.memory_mb, task.gpus, task.gpu_type)
            shapes[key] = (task, len(run) + (shapes[key][1] if key in shapes else 0))
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
        self, runs: Sequence[Sequence[Demand]], salt: int, avoid: frozenset[str], near: frozenset[str] | None
    ) -> list[Placement] | None:
        """Depth first, tightest node first: of a run of like tasks as many as fit go there, the rest to the next one.
        This first path is the usual best fit; going back, task by task, finds packings that it misses, within EFFORT.
        ``near`` are the only nodes looked at."""
        done: list[_Step] = []
        went_back = False
        while (left := _left(runs, done)) is not None:
            run, tasks, used = left
            step = _Step(run, tasks, used, self._candidates(tasks[0], avoid, near, used))
            while not self._next(step, salt):  # going back: until there is another way
                if not done:
                    return None
                if not went_back:
                    went_back, self._effort = True, self.EFFORT
                step = done.pop()
                self._effort -= 1
                if self._effort <= 0:
                    for each in (*done, step):
                        self.give_back(each.tasks[: len(each.placements)], each.placements)
                    return None
                if self._one_less(step):
                    break
            done.append(step)
        return [place for step in done for place in step.placements]

    def _next(self, step: _Step, salt: int) -> bool:
        """Put as many of the step's tasks as fit on the next node that could do."""
        best = next(step.candidates, None)
        if best is None:
            return False
        with self._changing(best.node.name) as free:
            step.is_reduced = False
            step.placements = [free.put(demand, salt) for demand in step.tasks[: free.times(step.tasks[0])]]
        return True

    def _one_less(self, step: _Step) -> bool:
        """Take the last of the step's tasks back. Whether any is left where it was."""
        place = step.placements.pop()
        self.give_back([step.tasks[len(step.placements)]], [place])
        step.is_reduced = True
        return bool(step.placements)

    def _candidates(
        self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None, used: Collection[str] = ()
    ) -> Iterator[FreeNode]:
        """One node of each group where the task fits, the best first, and none of those that are ``used``. Between two
        of them the room is unchanged."""
        for owner in self._serving:
            for is_wanted in self._tiers(demand, avoid, near):
                for gpus in sorted(gpus for gpus in self._shelves if gpus >= demand.gpus):
                    yield from self._of_shelf(self._shelves[gpus], demand, owner, is_wanted, used)

    def _of_shelf(
        self,
        shelf: dict[Likeness, list[FreeNode]],
        demand: Demand,
        owner: str,
        is_wanted: Callable[[str], bool],
        used: Collection[str],
    ) -> Iterator[FreeNode]:
        """Goes from the tightest group on; in each only the first node is looked for, and only when its turn comes."""
        self._effort -= len(shelf)
        groups = [
            group for group in shelf.values() if group[0].node.dedicated_to == owner and group[0].has_room(demand)
        ]
        for group in sorted(groups, key=_tightness) if len(groups) > 1 else groups:
            for free in group:
                name = free.node.name
                if is_wanted(name) and name not in used and free.has_ports(demand.ports):
                    yield free
                    break

    def _tiers(
        self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None
    ) -> Iterable[Callable[[str], bool]]:
        """Which nodes to look at, one tier after the other: those that have the image, others, those to avoid."""
        key = demand.image, demand.labels, avoid, demand.gpus > 0, self._withheld
        if near is not None:
            return self._ways(demand, avoid, near)
        if key not in self._tried:
            self._tried[key] = list(self._ways(demand, avoid, None))
        return self._tried[key]

    def _ways(
        self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None
    ) -> Iterator[Callable[[str], bool]]:
        marked = (node.name for node in self._marked if bars(node, demand))
        barred = self._without(demand.labels).union(self._withheld, marked)
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

    @contextmanager
    def _changing(self, node: str) -> Iterator[FreeNode]:
        """What is free on the node, to be changed; copies of this room keep theirs."""
        free = self._frees[node]
        self._leave(free)
        free = free.copy()
        try:
            yield free
        finally:
            self._join(free)

    def _join(self, free: FreeNode) -> None:
        self._frees[free.node.name] = free
        shelf = self._shelves.setdefault(len(free.gpus), {})
        insort(shelf.setdefault(free.likeness(), []), free, key=_name)

    def _leave(self, free: FreeNode) -> None:
        shelf, likeness = self._shelves[len(free.gpus)], free.likeness()
        group = shelf[likeness]
        del group[bisect_left(group, _name(free), key=_name)]
        if not group:
            del shelf[likeness]


def _left(
    runs: Sequence[Sequence[Demand]], done: Sequence[_Step]
) -> tuple[int, Sequence[Demand], frozenset[str]] | None:
    """The run that is next, its tasks without a place, and the nodes that take no others of it; None at the end."""
    last = done[-1] if done else None
    if last is None or len(last.placements) == len(last.tasks):
        run = 0 if last is None else last.run + 1
        return (run, runs[run], frozenset()) if run < len(runs) else None
    used = last.used | {last.placements[0].node} if last.is_reduced else last.used
    return last.run, last.tasks[len(last.placements) :], used


def _runs(demands: Sequence[Demand]) -> list[Sequence[Demand]]:
    """The demands cut where one asks for something else than the one before it."""
    return [list(run) for _, run in groupby(demands, asked_of_node)]


def _tightness(group: list[FreeNode]) -> tuple[int, int, str]:
    free = group[0]
    return free.cpus, free.memory_mb, free.node.name


def _name(free: FreeNode) -> str:
    return free.node.name


def _size(demand: Demand) -> tuple[int, int, int, bool]:
    return demand.gpus, demand.cpus, demand.memory_mb, any(port.begin_at for port in demand.ports)
