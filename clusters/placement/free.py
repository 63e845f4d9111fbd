"""Places whole gangs into the free space of one pass, or nothing of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf

from clusters.placement.fit import (
    NOT_WANTED,
    Demand,
    FreeNode,
    NodeView,
    Placement,
    Wanted,
    asked_of_node,
    bars,
    copies,
)
from clusters.placement.shelves import Shelves
from clusters.placement.topology import LEVEL_NODE, NEAREST, Room

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


class FreeNodes(Shelves):
    """The free space of all offered nodes during one pass; each placed gang makes it smaller.

    A search goes from the fullest nodes that could do to emptier ones. Where no type of GPUs is asked for, the least
    ``wanted`` type comes first, so that what is scarce stays for those who ask for it.
    """

    # Groups looked at by one search that goes back, before it gives up: it ends in milliseconds also when much nearly
    # fits.
    EFFORT = 5_000

    def __init__(self, nodes: Iterable[NodeView], *, empty: bool = False, wanted: Wanted = NOT_WANTED) -> None:
        """``empty``: as if nothing ran on the nodes."""
        super().__init__(nodes, empty=empty, wanted=wanted)
        self._effort = 0
        self._serving = [""]  # whose nodes the current search looks at
        self._withheld: frozenset[str] = frozenset()  # and which it does not
        self._marked = [node for node in self._nodes if node.marks]
        self._owners = {node.dedicated_to for node in self._nodes}
        self._having: dict[str, frozenset[str]] = {}  # image -> names of nodes
        self._lacking: dict[object, frozenset[str]] = {}  # what nodes must have -> names of those without
        self._tried: dict[tuple[object, ...], list[list[_Tier]]] = {}  # where tasks of a kind may go

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
        comes first; then nodes that have a task's image. A gang with GPUs, or one that asks for it, goes to one node
        if it fits there, else to one domain of its ``topology``, else, unless that is required, to few of them; all
        with less wanted types before more wanted ones; never to a node of ``withheld``."""
        self._withheld, self._most = withheld, inf
        self._serving = [vc, ""] if vc and vc in self._owners else [""]
        if len(demands) == 1:  # nothing is ever gone back on
            alone = _Step(0, demands, frozenset(), self._candidates(demands[0], avoid))
            return alone.placements if self._next(alone, salt) else None
        order = sorted(range(len(demands)), key=lambda at: _size(demands[at]), reverse=True)
        ordered = [demands[at] for at in order]
        runs = _runs(ordered)
        for most in self._wanted_at_most(ordered):
            self._most = most
            placements = self._gang(ordered, runs, salt, avoid) if self._could(runs) else None
            if placements is not None:
                by_order = dict(zip(order, placements, strict=True))
                return [by_order[at] for at in range(len(demands))]
        return None

    def _gang(
        self, demands: Sequence[Demand], runs: Sequence[Sequence[Demand]], salt: int, avoid: frozenset[str]
    ) -> list[Placement] | None:
        for near in self._near(demands, len(runs[0]), avoid) if runs else ():
            there = self._only(near)
            placements = there._search(runs, salt, avoid) if there._could(runs) else None
            if placements is not None:
                self.take(demands, placements)
                return placements
        return None if runs and demands[0].topology.is_required else self._search(runs, salt, avoid)

    def _wanted_at_most(self, demands: Iterable[Demand]) -> list[float]:
        """How much wanted the types may be that a gang gets where it names none: first the least, at last any."""
        if not self.wanted or not any(demand.gpus and not demand.gpu_type for demand in demands):
            return [inf]
        kinds = {kind for free in self._shelves for kind in free}
        return [*sorted({self.wanted.get(kind, 0.0) for kind in kinds})[:-1], inf]

    def _near(self, demands: Sequence[Demand], largest: int, avoid: frozenset[str]) -> Iterator[Collection[str]]:
        """The nodes among which a gang would be close together, the closest first: the tightest node with room for all
        of it, then domains. It has so many of the ``largest`` tasks, which come first."""
        asked, gpus = demands[0].topology, sum(demand.gpus for demand in demands)
        if not gpus and asked == NEAREST:
            return
        if is_of_one_type := len({demand.gpu_type for demand in demands}) == 1:
            cpus, memory_mb = sum(demand.cpus for demand in demands), sum(demand.memory_mb for demand in demands)
            whole = replace(demands[0], gpus=gpus, cpus=cpus, memory_mb=memory_mb, ports=())
            tightest = next(self._candidates(whole, avoid), None) if gpus or asked.level == LEVEL_NODE else None
            if tightest is not None and tightest.node.name not in avoid:
                yield [tightest.node.name]
        if self.domains.deepest or asked.level == LEVEL_NODE:
            for shunned in dict.fromkeys([avoid, frozenset()] if asked.is_required else [avoid]):
                room = self._room(demands[0], shunned)
                yield from self.domains.for_gang(asked, largest, gpus if is_of_one_type else 0, room)

    def _room(self, demand: Demand, avoid: frozenset[str]) -> Room:
        """What the nodes have at most for the current search."""
        out, room = self._without(demand) | self._withheld | avoid, dict[str, tuple[int, int]]()
        marked = {node.name for node in self._marked if bars(node, demand)}
        for name, free in self._frees.items():
            if name not in out and free.node.dedicated_to in self._serving:
                gpus = self._usable(free, demand.gpu_type)
                number = 0 if name in marked else copies(demand, free.cpus, free.memory_mb, gpus)
                room[name] = gpus, max(0, number)
        return room

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

    def _search(self, runs: Sequence[Sequence[Demand]], salt: int, avoid: frozenset[str]) -> list[Placement] | None:
        """Depth first, tightest node first: of a run of like tasks as many as fit go there, the rest to the next one.
        This first path is the usual best fit; going back, task by task, finds packings that it misses, within
        EFFORT."""
        done: list[_Step] = []
        went_back = False
        while (left := _left(runs, done)) is not None:
            run, tasks, used = left
            step = _Step(run, tasks, used, self._candidates(tasks[0], avoid, used))
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
        free, tasks, step.is_reduced = best.copy(), step.tasks, False
        if len(tasks) > 1:
            tasks = tasks[: free.times(tasks[0], self._usable(free, tasks[0].gpu_type))]
        step.placements = [free.put(demand, salt, self.wanted) for demand in tasks]
        self._replace(best, free)
        return True

    def _one_less(self, step: _Step) -> bool:
        """Take the last of the step's tasks back. Whether any is left where it was."""
        place = step.placements.pop()
        self.give_back([step.tasks[len(step.placements)]], [place])
        step.is_reduced = True
        return bool(step.placements)

    def _candidates(self, demand: Demand, avoid: frozenset[str], used: Collection[str] = ()) -> Iterator[FreeNode]:
        """One node of each group where the task fits, the best first, and none of those that are ``used``. Between two
        of them the room is unchanged."""
        for owner in self._serving:
            for tiers in self._tiers(demand, avoid)[: 1 if self._most < inf else 2]:
                for want, by_gpus in self._in_order(demand):
                    if want > self._most and not owner:
                        break
                    for is_of_tier in tiers:
                        for shelves in by_gpus:
                            groups = [group for shelf in shelves for group in shelf.values()]
                            if groups:
                                yield from self._of_groups(groups, demand, owner, is_of_tier, used)

    def _of_groups(
        self, groups: Sequence[list[FreeNode]], demand: Demand, owner: str, is_of_tier: _Tier, used: Collection[str]
    ) -> Iterator[FreeNode]:
        """Goes from the tightest group on; in each only the first node is looked for, and only when its turn comes."""
        self._effort -= len(groups)
        groups = [group for group in groups if group[0].node.dedicated_to == owner and group[0].has_room(demand)]
        for group in sorted(groups, key=lambda group: _tightness(group[0], demand)) if len(groups) > 1 else groups:
            for free in group:
                name = free.node.name
                if is_of_tier(name) and name not in used and free.has_ports(demand.ports):
                    yield free
                    break

    def _tiers(self, demand: Demand, avoid: frozenset[str]) -> list[list[_Tier]]:
        """Which nodes to look at: those that have the image, and then others; at last, apart, those to avoid."""
        key = demand.image, demand.labels, demand.topology, avoid, demand.gpus > 0, self._withheld
        if key not in self._tried:
            self._tried[key] = self._ways(demand, avoid)
        return self._tried[key]

    def _ways(self, demand: Demand, avoid: frozenset[str]) -> list[list[_Tier]]:
        marked = (node.name for node in self._marked if bars(node, demand))
        barred = self._without(demand).union(self._withheld, marked)
        last = avoid - barred
        best = self._with_image(demand.image) - last - barred
        others = best | last | barred
        first: list[_Tier] = [best.__contains__] if best else []
        first.append(lambda name: name not in others)
        return [first, [last.__contains__]] if last else [first]

    def _with_image(self, image: str) -> frozenset[str]:
        if image not in self._having:
            self._having[image] = frozenset(node.name for node in self._nodes if image in node.images)
        return self._having[image]

    def _without(self, demand: Demand) -> frozenset[str]:
        """The nodes that lack what the task's node must have."""
        key = demand.labels, demand.topology
        if key not in self._lacking:
            is_picky = demand.labels or demand.topology.is_required
            lacking = (node.name for node in self._nodes if not demand.admits(node)) if is_picky else ()
            self._lacking[key] = frozenset(lacking)
        return self._lacking[key]


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


def _tightness(free: FreeNode, demand: Demand) -> tuple[int, int, int, str]:
    """First the nodes on which the GPUs that are left have as many cores each as before, or lose the fewest: GPUs
    without cores are of use to nobody. Of these the fullest."""
    gpus = len(free.gpus)
    lost = demand.cpus * gpus - free.cpus * demand.gpus if gpus > demand.gpus else 0
    return max(0, lost), free.cpus, free.memory_mb, free.node.name


def _size(demand: Demand) -> tuple[int, int, int, bool]:
    return demand.gpus, demand.cpus, demand.memory_mb, any(port.begin_at for port in demand.ports)
