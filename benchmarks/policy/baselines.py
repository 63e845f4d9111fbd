"""What everybody knows: first in, first out; the same with whatever fits; and EASY backfill that knows every end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.policy.cluster import Start, State
from benchmarks.policy.workload import GPUS_A_NODE, Wish


class Shelves:
    """Free GPUs of nodes, by their number: the fullest node that a task fits on is at hand."""

    def __init__(self, free: Iterable[int]) -> None:
        self.free = list(free)
        self._nodes: list[dict[int, None]] = [{} for _ in range(GPUS_A_NODE + 1)]
        for node, number in enumerate(self.free):
            self._nodes[number][node] = None

    def place(self, wish: Wish) -> list[int] | None:
        """The nodes of its tasks, or None and nothing is taken."""
        nodes: list[int] = []
        for _ in range(wish.tasks):
            node = self._fullest(wish.gpus_a_task)
            if node is None:
                for taken in nodes:
                    self.change(taken, wish.gpus_a_task)
                return None
            self.change(node, -wish.gpus_a_task)
            nodes.append(node)
        return nodes

    def change(self, node: int, by: int) -> None:
        del self._nodes[self.free[node]][node]
        self.free[node] += by
        self._nodes[self.free[node]][node] = None

    def _fullest(self, gpus: int) -> int | None:
        return next((next(iter(nodes)) for nodes in self._nodes[gpus:] if nodes), None)


class Fifo:
    """Nothing starts before a job that was submitted earlier."""

    name = "plain FIFO"

    def decide(self, state: State) -> tuple[Sequence[Start], Sequence[int]]:
        shelves, starts = Shelves(state.free), []
        for wish in in_order(state):
            nodes = shelves.place(wish)
            if nodes is None:
                break
            starts.append(Start(wish, nodes))
        return starts, ()


class Naive:
    """Whatever fits starts, in order of submission."""

    name = "FIFO, naive backfill"

    def decide(self, state: State) -> tuple[Sequence[Start], Sequence[int]]:
        return list(_fill(Shelves(state.free), in_order(state))), ()


class Easy:
    """The first job that does not fit has the moment reserved at which it will; others start when that moment stays.
    Foresight: it knows when every run ends."""

    name = "EASY, perfect knowledge"

    def decide(self, state: State) -> tuple[Sequence[Start], Sequence[int]]:
        shelves, starts, queue = Shelves(state.free), list[Start](), in_order(state)
        for at, wish in enumerate(queue):
            nodes = shelves.place(wish)
            if nodes is None:
                return [*starts, *self._behind(state, starts, shelves, wish, queue[at + 1 :])], ()
            starts.append(Start(wish, nodes))
        return starts, ()

    def _behind(
        self, state: State, starts: Sequence[Start], shelves: Shelves, head: Wish, queue: Sequence[Wish]
    ) -> list[Start]:
        moment, later = _moment(state, starts, shelves, head)
        both = Shelves(map(min, shelves.free, later.free))
        found: list[Start] = []
        for wish in queue:
            if state.now + wish.duration <= moment:
                nodes = shelves.place(wish)
                for node in nodes or ():
                    both.change(node, min(shelves.free[node], later.free[node]) - both.free[node])
            else:
                nodes = both.place(wish)
                for node in nodes or ():
                    shelves.change(node, -wish.gpus_a_task)
                    later.change(node, -wish.gpus_a_task)
            if nodes is not None:
                found.append(Start(wish, nodes))
        return found


def in_order(state: State) -> list[Wish]:
    return sorted(state.waiting.values(), key=lambda wish: (wish.submitted, wish.id))


def _fill(shelves: Shelves, queue: Iterable[Wish]) -> Iterable[Start]:
    for wish in queue:
        if (nodes := shelves.place(wish)) is not None:
            yield Start(wish, nodes)


def _moment(state: State, starts: Sequence[Start], shelves: Shelves, head: Wish) -> tuple[float, Shelves]:
    """When the head job fits, if nothing else starts, and what is free then beside it."""
    later = Shelves(shelves.free)
    ends = [(run.ends, run.wish, run.nodes) for run in state.running.values()]
    ends += [(state.now + start.wish.duration, start.wish, start.nodes) for start in starts]
    for end, wish, nodes in sorted(ends, key=lambda one: (one[0], one[1].id)):
        for node in nodes:
            later.change(node, wish.gpus_a_task)
        if later.place(head) is not None:
            return end, later
    raise AssertionError("The job is larger than the cluster.")
