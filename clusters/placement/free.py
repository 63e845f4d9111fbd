"""Places whole gangs into the free space of one pass, or nothing of them. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby
from math import inf
from operator import itemgetter

from clusters.placement.fit import (
    NOT_WANTED,
    Demand,
    FreeNode,
    Labels,
    Likeness,
    NodeView,
    Placement,
    Wanted,
    asked_of_node,
    bars,
    copies,
)

TOPOLOGIES = 3  # tried for a gang that fits on no single node
_Shelf = dict[Likeness, list[FreeNode]]  # groups
_Tier = Callable[[str], bool]  # whether a node, by its name, is one of those looked at together


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

    Nodes that are alike are in one group, and groups are on shelves by their free GPUs. A search goes from the fullest
    nodes that could do to emptier ones, and looks at a handful of groups instead of every node. Where no type of GPUs
    is asked for, the least ``wanted`` type comes first, so that what is scarce stays for those who ask for it.
    """

    # Groups looked at by one search that goes back, before it gives up: it ends in milliseconds also when much nearly
    # fits.
    EFFORT = 5_000

    def __init__(self, nodes: Iterable[NodeView], *, empty: bool = False, wanted: Wanted = NOT_WANTED) -> None:
        """``empty``: as if nothing ran on the nodes."""
        self.wanted = wanted
        # By the types of the free GPUs; each group by name: no history shows.
        self._shelves: dict[tuple[str, ...], _Shelf] = {}
        self._ordered: dict[tuple[int, str], list[tuple[float, list[list[_Shelf]]]]] = {}  # see _in_order
        self._most = inf  # how much wanted a type may be that the current search takes where none is asked for
        self._effort = 0
        self._serving = [""]  # whose nodes the current search looks at
        self._withheld: frozenset[str] = frozenset()  # and which it does not
        self._nodes = [node for node in nodes if node.offered]
        self._marked = [node for node in self._nodes if node.marks]
        self._owners = {node.dedicated_to for node in self._nodes}
        self._having: dict[str, frozenset[str]] = {}  # image -> names of nodes
        self._lacking: dict[Labels, frozenset[str]] = {frozenset(): frozenset()}  # labels -> names of nodes
        self._tried: dict[tuple[object, ...], list[list[_Tier]]] = {}  # where tasks of a kind may go
        self._frees = {node.name: FreeNode(node, empty=empty) for node in self._nodes}
        for free in self._frees.values():
            self._shelf(free).setdefault(free.likeness(), []).append(free)
        for shelf in self._shelves.values():
            for group in shelf.values():
                group.sort(key=_name)

    def copy(self, nodes: Iterable[NodeView] = (), wanted: Wanted | None = None) -> FreeNodes:
        """Return as much free, taken and given back apart from this one; a fraction of the work of a new one. Of
        ``nodes``, which differ in nothing but what is taken on them, it has these in place of its own."""
        other = FreeNodes.__new__(FreeNodes)
        other.wanted, other._ordered, other._most = self.wanted if wanted is None else wanted, {}, inf
        other._shelves = {
            kinds: {likeness: group[:] for likeness, group in shelf.items()} for kinds, shelf in self._shelves.items()
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
        Its own nodes come first, and those to ``avoid`` last; where it names no type of GPUs, the least wanted type
        comes first; then nodes that have a task's image. A gang with GPUs goes to one node if it fits there, else to
        nodes of one ``topology``, else anywhere, all with less wanted types before more wanted ones; never to a node of
        ``withheld``."""
        self._withheld, self._most = withheld, inf
        self._serving = [vc, ""] if vc and vc in self._owners else [""]
        if len(demands) == 1:  # nothing is ever gone back on
            alone = _Step(0, demands, frozenset(), self._candidates(demands[0], avoid, None))
            return alone.placements if self._next(alone, salt) else None
        order = sorted(range(len(demands)), key=lambda at: _size(demands[at]), reverse=True)
        ordered = [demands[at] for at in order]
        runs = _runs(ordered)
        for most in self._levels(ordered):
            self._most = most
            for near in chain(self._near(ordered, avoid), (None,)) if self._could(runs) else ():
                placements = self._search(runs, salt, avoid, near)
                if placements is not None:
                    by_order = dict(zip(order, placements, strict=True))
                    return [by_order[at] for at in range(len(demands))]
        return None

    def _levels(self, demands: Iterable[Demand]) -> list[float]:
        """How much wanted the types may be that a gang gets where it names none: first the least, at last any."""
        if not self.wanted or not any(demand.gpus and not demand.gpu_type for demand in demands):
            return [inf]
        kinds = {kind for free in self._shelves for kind in free}
        return [*sorted({self.wanted.get(kind, 0.0) for kind in kinds})[:-1], inf]

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
                        free.set_aside(demand, self.wanted)

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
        free = {names: sum(self._usable(self._frees[name]) for name in names) for names in self._topologies}
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
        for want, by_gpus in self._in_order(shape):
            for group in (group for shelves in by_gpus for shelf in shelves for group in shelf.values()):
                free = group[0]
                owner = free.node.dedicated_to
                if owner in self._serving and (owner or want <= self._most) and free.has_room(shape):
                    number -= len(group) * copies(shape, free.cpus, free.memory_mb, free.free_gpus(shape.gpu_type))
                    if number <= 0:
                        return True
        return False

    def _usable(self, free: FreeNode, gpu_type: str = "") -> int:
        """How many GPUs of the type, or of any, the current search may take of a node."""
        if gpu_type or self._most == inf or free.node.dedicated_to:
            return free.free_gpus(gpu_type)
        return sum(self.wanted.get(kind, 0.0) <= self._most for _, kind in free.gpus)

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
                    # What goes wrong with less wanted types is tried with all of them.
                    went_back, self._effort = True, self.EFFORT if self._most == inf else 0
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
            step.is_reduced, first = False, step.tasks[0]
            number = free.times(first, self._usable(free, first.gpu_type))
            step.placements = [free.put(demand, salt, self.wanted) for demand in step.tasks[:number]]
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
            for tiers in self._tiers(demand, avoid, near)[: 1 if self._most < inf else 2]:
                for want, by_gpus in self._in_order(demand):
                    if want > self._most and not owner:
                        break
                    for is_of_tier in tiers:
                        for shelves in by_gpus:
                            yield from self._of_shelves(shelves, demand, owner, is_of_tier, used)

    def _in_order(self, demand: Demand) -> list[tuple[float, list[list[_Shelf]]]]:
        """The shelves that could do by how much the GPUs that the task would get are wanted, each part of them by the
        number of free GPUs. It is kept until there is another shelf."""
        key = demand.gpus, demand.gpu_type
        if key not in self._ordered:
            parts: dict[float, dict[int, list[_Shelf]]] = {}
            for kinds, shelf in self._shelves.items():
                if demand.gpus <= (kinds.count(demand.gpu_type) if demand.gpu_type else len(kinds)):
                    want = 0.0
                    if self.wanted and demand.gpus and not demand.gpu_type:
                        want = sorted(self.wanted.get(kind, 0.0) for kind in kinds)[demand.gpus - 1]
                    parts.setdefault(want, {}).setdefault(len(kinds), []).append(shelf)
            by_gpus = ((want, parts[want]) for want in sorted(parts))
            self._ordered[key] = [(want, [part[gpus] for gpus in sorted(part)]) for want, part in by_gpus]
        return self._ordered[key]

    def _of_shelves(
        self, shelves: Sequence[_Shelf], demand: Demand, owner: str, is_of_tier: _Tier, used: Collection[str]
    ) -> Iterator[FreeNode]:
        """Goes from the tightest group on; in each only the first node is looked for, and only when its turn comes."""
        groups = [group for shelf in shelves for group in shelf.values()]
        self._effort -= len(groups)
        groups = [group for group in groups if group[0].node.dedicated_to == owner and group[0].has_room(demand)]
        for group in sorted(groups, key=_tightness) if len(groups) > 1 else groups:
            for free in group:
                name = free.node.name
                if is_of_tier(name) and name not in used and free.has_ports(demand.ports):
                    yield free
                    break

    def _tiers(self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None) -> list[list[_Tier]]:
        """Which nodes to look at: those that have the image, and then others; at last, apart, those to avoid."""
        key = demand.image, demand.labels, avoid, demand.gpus > 0, self._withheld
        if near is not None:
            return self._ways(demand, avoid, near)
        if key not in self._tried:
            self._tried[key] = self._ways(demand, avoid, None)
        return self._tried[key]

    def _ways(self, demand: Demand, avoid: frozenset[str], near: frozenset[str] | None) -> list[list[_Tier]]:
        marked = (node.name for node in self._marked if bars(node, demand))
        barred = self._without(demand.labels).union(self._withheld, marked)
        last = avoid - barred
        best = self._with_image(demand.image) - last - barred
        if near is not None:
            return [[(near - barred - last).__contains__]]
        others = best | last | barred
        first: list[_Tier] = [best.__contains__] if best else []
        first.append(lambda name: name not in others)
        return [first, [last.__contains__]] if last else [first]

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
        insort(self._shelf(free).setdefault(free.likeness(), []), free, key=_name)

    def _shelf(self, free: FreeNode) -> _Shelf:
        kinds = free.likeness()[3]
        if kinds not in self._shelves:
            self._shelves[kinds] = {}
            self._ordered.clear()
        return self._shelves[kinds]

    def _leave(self, free: FreeNode) -> None:
        likeness = free.likeness()
        shelf = self._shelves[likeness[3]]
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
