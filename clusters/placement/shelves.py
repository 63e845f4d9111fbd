"""Keeps what is free on all offered nodes during one pass, by how it is looked for. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Self

from clusters.placement.fit import NOT_WANTED, Demand, FreeNode, Likeness, NodeView, Placement, Wanted
from clusters.placement.topology import Domains

Shelf = dict[Likeness, list[FreeNode]]  # groups


class Shelves:
    """Nodes that are alike are in one group, and groups are on shelves by their free GPUs, so that a search looks at a
    handful of groups instead of every node."""

    def __init__(self, nodes: Iterable[NodeView], *, empty: bool = False, wanted: Wanted = NOT_WANTED) -> None:
        """``empty``: as if nothing ran on the nodes."""
        self.wanted = wanted
        # By the types of the free GPUs; each group by name: no history shows.
        self._shelves: dict[tuple[str, ...], Shelf] = {}
        self._ordered: dict[tuple[int, str], list[tuple[float, list[list[Shelf]]]]] = {}  # see _in_order
        self._most = inf  # how much wanted a type may be that the current search takes where none is asked for
        self._nodes = [node for node in nodes if node.offered]
        self.domains = Domains({node.name: node.labels for node in self._nodes})
        self._frees = {node.name: FreeNode(node, empty=empty) for node in self._nodes}
        for free in self._frees.values():
            self._shelf(free.likeness()).setdefault(free.likeness(), []).append(free)
        for shelf in self._shelves.values():
            for group in shelf.values():
                group.sort(key=_name)

    def copy(self, nodes: Iterable[NodeView] = (), wanted: Wanted | None = None) -> Self:
        """Return as much free, taken and given back apart from this one; a fraction of the work of a new one. Of
        ``nodes``, which differ in nothing but what is taken on them, it has these in place of its own."""
        other = self._twin(dict(self._frees))
        other.wanted = self.wanted if wanted is None else wanted
        other._shelves = {
            kinds: {likeness: group[:] for likeness, group in shelf.items()} for kinds, shelf in self._shelves.items()
        }
        for node in nodes:
            if (free := other._frees.get(node.name)) is not None and free.node is not node:
                other._leave(free)
                other._join(FreeNode(node))
        return other

    def _only(self, names: Iterable[str]) -> Self:
        """Return as much free on these nodes alone, taken and given back apart from this one."""
        other = self._twin({name: self._frees[name] for name in sorted(names)})
        for free in other._frees.values():
            other._shelf(free.likeness()).setdefault(free.likeness(), []).append(free)
        return other

    def _twin(self, frees: dict[str, FreeNode]) -> Self:
        """Return one of the same nodes, which has these and no shelves yet. What is known of the nodes is shared."""
        other = self.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._frees, other._shelves, other._ordered = frees, {}, {}
        return other

    def free(self, node: str) -> FreeNode | None:
        """What is free on an offered node; to be copied before it is changed."""
        return self._frees.get(node)

    def _usable(self, free: FreeNode, gpu_type: str = "") -> int:
        """How many GPUs of the type, or of any, the current search may take of a node."""
        if gpu_type or self._most == inf or free.node.dedicated_to:
            return free.free_gpus(gpu_type)
        return sum(self.wanted.get(kind, 0.0) <= self._most for _, kind in free.gpus)

    def give_back(self, demands: Sequence[Demand], placements: Sequence[Placement]) -> None:
        """Take back what ``place`` has given out."""
        self._change(FreeNode.take_back, demands, placements)

    def take(self, demands: Sequence[Demand], placements: Sequence[Placement]) -> None:
        """Take what other FreeNodes of the same nodes have given out."""
        self._change(FreeNode.take, demands, placements)

    def set_aside(self, demands: Sequence[Demand], nodes: Sequence[str]) -> None:
        """Keep for each demand as much of what it needs on its node as is free there."""
        for name, some in groupby(zip(nodes, demands, strict=True), itemgetter(0)):
            if (before := self._frees.get(name)) is not None:
                free = before.copy()
                for _, demand in some:
                    free.set_aside(demand, self.wanted)
                self._replace(before, free)

    def _change(
        self,
        change: Callable[[FreeNode, Demand, Placement], None],
        demands: Sequence[Demand],
        placements: Sequence[Placement],
    ) -> None:
        for name, some in groupby(zip(placements, demands, strict=True), lambda one: one[0].node):
            if (before := self._frees.get(name)) is not None:
                free = before.copy()
                for place, demand in some:
                    change(free, demand, place)
                self._replace(before, free)

    def _in_order(self, demand: Demand) -> list[tuple[float, list[list[Shelf]]]]:
        """The shelves that could do by how much the GPUs that the task would get are wanted, each part of them by the
        number of free GPUs. It is kept until there is another shelf."""
        key = demand.gpus, demand.gpu_type
        if key not in self._ordered:
            parts: dict[float, dict[int, list[Shelf]]] = {}
            for kinds, shelf in self._shelves.items():
                if demand.gpus <= (kinds.count(demand.gpu_type) if demand.gpu_type else len(kinds)):
                    want = 0.0
                    if self.wanted and demand.gpus and not demand.gpu_type:
                        want = sorted(self.wanted.get(kind, 0.0) for kind in kinds)[demand.gpus - 1]
                    parts.setdefault(want, {}).setdefault(len(kinds), []).append(shelf)
            by_gpus = ((want, parts[want]) for want in sorted(parts))
            self._ordered[key] = [(want, [part[gpus] for gpus in sorted(part)]) for want, part in by_gpus]
        return self._ordered[key]

    def _replace(self, before: FreeNode, after: FreeNode) -> None:
        """Put what is free on the node now in the place of what was. Copies of this room keep theirs."""
        self._leave(before)
        self._join(after)

    def _join(self, free: FreeNode) -> None:
        self._frees[free.node.name] = free
        likeness = free.likeness()
        shelf = self._shelf(likeness)
        if (group := shelf.get(likeness)) is None:
            shelf[likeness] = [free]
        else:
            insort(group, free, key=_name)

    def _shelf(self, likeness: Likeness) -> Shelf:
        shelf = self._shelves.get(likeness[3])
        if shelf is None:
            shelf = self._shelves[likeness[3]] = {}
            self._ordered.clear()
        return shelf

    def _leave(self, free: FreeNode) -> None:
        likeness = free.likeness()
        shelf = self._shelves[likeness[3]]
        group = shelf[likeness]
        del group[bisect_left(group, _name(free), key=_name)]
        if not group:
            del shelf[likeness]


def _name(free: FreeNode) -> str:
    return free.node.name
