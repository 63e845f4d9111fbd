"""Who starts next: Longshore's own turns, and what everybody knows beside them. Pure.

A policy places jobs in the same Room as the planner does; what differs is the order, and who may pass whom.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from clusters.placement.room import Room
from jobs.planning.forecast.lengths import Lengths, Like
from jobs.planning.queue.scene import Scene
from jobs.planning.replay.cluster import Cluster, Part, Placed, Run, Start
from jobs.planning.turns import Verdict, turns

LEARNT, LEARN_EVERY = 5_000, 600.0  # ended runs; seconds

Decision = tuple[Sequence[Start], Sequence[int]]


class Policy(Protocol):
    name: str

    def decide(self, cluster: Cluster) -> Decision:
        """Which waiting jobs start now and where, and the ids of running ones that are evicted."""
        ...

    def ended(self, placed: Placed) -> None:
        """A run has come to its own end: what can be learnt of it."""
        ...


class Fifo:
    """Nothing starts before a job that was submitted earlier."""

    name = "plain FIFO"

    def decide(self, cluster: Cluster) -> Decision:
        room, starts = Room(cluster.nodes), list[Start]()
        for run in cluster.in_order():
            places = room.place(run.shape, run.id, vc=run.vc)
            if places is None:
                break
            starts.append(Start(run, places))
        return starts, ()

    def ended(self, placed: Placed) -> None:
        pass


class Backfill(Fifo):
    """Whatever fits starts, in order of submission."""

    name = "FIFO with backfill"

    def decide(self, cluster: Cluster) -> Decision:
        shelf = Shelf(Room(cluster.nodes))
        return [start for run in cluster.in_order() if (start := shelf.start(run)) is not None], ()


class Shelf:
    """A Room that only becomes smaller: what found no place in it is not tried again."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._none: set[tuple[int, str]] = set()  # runs of one shape share the object, which the cluster keeps

    def start(self, run: Run) -> Start | None:
        key = id(run.shape), run.vc
        if key in self._none:
            return None
        places = self.room.place(run.shape, run.id, vc=run.vc)
        if places is None:
            self._none.add(key)
            return None
        return Start(run, places)


class Longshore:
    """The very turns that the planner executes."""

    name = "Longshore"

    def __init__(self, before: Sequence[tuple[Like, float]] = ()) -> None:
        """``before``: how long jobs ran that ended before the day, the newest first."""
        self._ended: deque[tuple[Like, float]] = deque(before, maxlen=LEARNT)  # the newest first
        self._lengths, self._learn_at = Lengths(self._ended), LEARN_EVERY
        self._evicted: dict[int, Counter[bool]] = {}  # by job: how often, as a guest and not

    def decide(self, cluster: Cluster) -> Decision:
        if cluster.now >= self._learn_at:
            self._lengths, self._learn_at = Lengths(self._ended), cluster.now + LEARN_EVERY
        starts, evicted = list[Start](), list[int]()
        waiting = [self.as_it_waits(run) for run in cluster.waiting.values()]
        for turn in turns(waiting, self.scene(cluster), only_tried=True):
            if turn.error is not None:
                raise turn.error
            evicted += [holder.job.id for holder in turn.victims]
            if turn.verdict is Verdict.GO:
                starts.append(Start(cluster.waiting[turn.job.id], turn.places, turn.is_guest))
        for id in evicted:
            self._evicted.setdefault(id, Counter())[cluster.running[id].as_it_runs.is_guest] += 1
        return starts, evicted

    def scene(self, cluster: Cluster) -> Scene[Run]:
        return Scene(
            nodes=cluster.nodes,
            now=cluster.at(cluster.now),
            quotas=cluster.quotas,
            use=cluster.use,
            running=lambda: [self._as_it_runs(one) for one in cluster.running.values()],
            holds=cluster.holds,
            lengths=lambda: self._lengths,
        )

    def ended(self, placed: Placed) -> None:
        run = placed.run
        gpus = run.shape[0].gpus if run.shape else 0
        self._ended.appendleft((Like(run.username, run.name, gpus, run.vc), run.seconds))

    def as_it_waits(self, run: Run) -> Run:
        evicted = self._evicted.get(run.id)
        return replace(run, guest_evictions=evicted[True], evictions=evicted[False]) if evicted else run

    def _as_it_runs(self, one: Placed) -> tuple[Run, Sequence[Part]]:
        return (replace(one.as_it_runs, stopping=True) if one.is_evicted else one.as_it_runs), one.parts
