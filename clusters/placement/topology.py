"""How close together the tasks of a gang are to be, by the label ``topology`` of nodes, and where they would be.
Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

Labels = frozenset[tuple[str, str]]  # {(name, value)}
MOST_LEVEL = 16  # of a path, and that a config may name
TRIES = 3  # domains of one level that are tried for a gang that only prefers to be close together
Path = tuple[str, ...]
Room = Mapping[str, tuple[int, int]]  # by node: the GPUs that a gang may use, and how many of its largest tasks fit
LEVEL_NODE = 99  # all tasks on one node, whatever its label


class Topology(NamedTuple):
    """How close together the tasks of a gang must be, or had better be. A level is a number of parts of the path that
    the label ``topology`` of a node is: of ``hall1/rack3`` the hall is level 1 and the rack level 2. Nodes that are
    alike so far are one domain. Level 0 is the deepest that any node has."""

    level: int = 0
    is_required: bool = False

    def takes(self, labels: Labels) -> bool:
        """Whether a node with these labels is in a domain, where one is required."""
        return not self.is_required or self.level == LEVEL_NODE or len(path_of(labels)) >= self.level

    def domain(self, node: str, labels: Labels) -> Path:
        """The domain that such a node is in."""
        return (node,) if self.level == LEVEL_NODE else path_of(labels)[: self.level]

    @property
    def config_value(self) -> int | str:
        """The level as a config has it."""
        return "node" if self.level == LEVEL_NODE else self.level

    @property
    def says(self) -> str:
        where = (
            "on one node" if self.level == LEVEL_NODE else f"in one domain of level {self.level} of the label topology"
        )
        return f"Its tasks must all be {where} (extras.topology.require)"


NEAREST = Topology()  # where nothing is said


@lru_cache(maxsize=10_000)
def path_of(labels: Labels) -> Path:
    """The parts of the label ``topology``; none without it."""
    value = min((value for name, value in labels if name == "topology"), default="")
    return tuple(filter(None, value.split("/")))


class Domains:
    """The domains of all levels. The topmost is that of all nodes, with the empty path."""

    def __init__(self, labels: Mapping[str, Labels]) -> None:
        """``labels`` are those of each node, by its name."""
        self._labels = labels

    @cached_property
    def _of_level(self) -> list[dict[Path, list[str]]]:
        """For each level, from 0 on, the names of the nodes of each of its domains."""
        levels: list[dict[Path, list[str]]] = [{(): list(self._labels)}]
        for name, labels in self._labels.items():
            path = path_of(labels)
            levels += [{} for _ in range(len(levels), len(path) + 1)]
            for level in range(1, len(path) + 1):
                levels[level].setdefault(path[:level], []).append(name)
        return levels

    @property
    def deepest(self) -> int:
        return len(self._of_level) - 1

    def at(self, level: int) -> Mapping[Path, Sequence[str]]:
        """The names of the nodes of each domain of a level."""
        if level == LEVEL_NODE:
            return {(name,): [name] for name in self._labels}
        return self._of_level[level] if level <= self.deepest else {}

    def levels(self, asked: Topology) -> list[int]:
        """The level that is required, or those that are preferred, the closest first."""
        if asked.is_required:
            return [asked.level]
        return list(range(min(asked.level or self.deepest, self.deepest), 0, -1))

    def for_gang(self, asked: Topology, tasks: int, gpus: int, room: Room) -> Iterator[Collection[str]]:
        """The nodes to try one after the other for a gang with so many largest tasks and GPUs: the domains that could
        hold it, the closest ones first and of one level the fullest first, and in each its parts before all of it.
        Those of a required level are all there; where none is required, at last the fewest domains together."""
        levels = self.levels(asked)
        near = levels[0] if levels and not asked.is_required else self.deepest
        if asked.is_required:
            levels = [*range(self.deepest, asked.level, -1), *levels]
        for level in levels:
            could = self._could_hold(level, tasks, gpus, room)
            if not asked.is_required or level != asked.level:
                could = [(path, names) for path, names in could if len(names) < len(self._labels)][:TRIES]
            for path, names in could:
                if level < near:
                    yield self._fewest(path, near, tasks, room)
                yield names
        if levels and not asked.is_required:
            yield self._fewest((), near, tasks, room)
            yield [name for names in self._of_level[1].values() for name in names if name in room]

    def _could_hold(self, level: int, tasks: int, gpus: int, room: Room) -> list[tuple[Path, list[str]]]:
        found = []
        for path, all_ in self.at(level).items():
            names = [name for name in all_ if name in room]
            free = sum(room[name][0] for name in names)
            copies = sum(room[name][1] for name in names)
            if copies >= tasks and free >= gpus:
                found.append((free, copies, path, names))
        return [(path, names) for *_, path, names in sorted(found)]

    def _fewest(self, path: Path, level: int, tasks: int, room: Room) -> list[str]:
        """The nodes of the fewest domains of the level, below this one, that hold so many tasks together. They are
        looked for level by level: below the fewest halls the fewest racks, the largest ones and at last the smallest
        that will do."""
        chosen = [path]
        while len(chosen[0]) < level:
            parts = [part for each in chosen for part in self._parts.get(each, ())]
            sizes = sorted((sum(room[name][1] for name in self._names(part, room)), part) for part in parts)
            fewer, left = list[Path](), tasks
            while sizes and left > 0:
                at = bisect_left(sizes, (left,))
                size, part = sizes.pop(at if at < len(sizes) else -1)
                fewer.append(part)
                left -= size
            if left > 0:  # it takes nodes that are in none of the parts
                break
            chosen = fewer
        return [name for each in chosen for name in self._names(each, room)]

    def _names(self, path: Path, room: Room) -> list[str]:
        return [name for name in self._of_level[len(path)][path] if name in room]

    @cached_property
    def _parts(self) -> dict[Path, list[Path]]:
        """The domains that each one consists of."""
        parts: dict[Path, list[Path]] = {}
        for level in self._of_level[1:]:
            for path in level:
                parts.setdefault(path[:-1], []).append(path)
        return parts
