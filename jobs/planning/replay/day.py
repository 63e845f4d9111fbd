"""Plays a day: jobs come and end, and after each of that a policy says which start and which are evicted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, inf
from typing import NamedTuple

from jobs.planning.replay.cluster import Cluster, Placed, Run, Start
from jobs.planning.replay.policies import Policy

GRACE = 30.0  # seconds that an evicted job takes to leave


class Span(NamedTuple):
    """A run held its room from ``began`` to ``ended``."""

    id: int
    began: float
    ended: float
    is_evicted: bool = False


@dataclass(slots=True)
class Played:
    """What happened. ``until`` is how far the day was played; ``decided`` the seconds that the policy took."""

    spans: list[Span] = field(default_factory=list)
    waits: set[int] = field(default_factory=set)  # what has not started, or waits again
    until: float = 0.0
    decided: float = 0.0
    refused: int = 0  # starts for which there was no room after all


def _goes_on(now: float) -> bool:
    return False


def _no_clock() -> float:
    return 0.0


class Day:
    """``runs`` come by their time of submission. The queue is looked at after what happens, ``step`` seconds apart at
    least, and every ``look`` seconds while anybody waits."""

    def __init__(self, runs: Iterable[Run], cluster: Cluster, policy: Policy, *, step: float, look: float) -> None:
        self._coming = sorted(runs, key=lambda run: (run.submitted, run.id), reverse=True)
        self._cluster, self._policy, self._step, self._look = cluster, policy, step, look
        self._ends: list[tuple[float, int, float]] = []  # end, id, begin: an entry of an evicted run is stale
        for one in cluster.running.values():
            heappush(self._ends, (one.ends, one.run.id, one.began))
        self._looked, self._has_changed = -inf, True
        self.played = Played()

    def play(
        self, until: float, is_over: Callable[[float], bool] = _goes_on, clock: Callable[[], float] = _no_clock
    ) -> Played:
        """Up to this time, or until nothing waits any more and nothing comes. ``is_over`` is asked at each step with
        the time of the day, and may end it there."""
        cluster = self._cluster
        while cluster.now < until and (self._coming or cluster.waiting) and not is_over(cluster.now):
            self._arrive()
            self._end()
            if cluster.waiting and (self._has_changed or cluster.now - self._looked >= self._look):
                self._decide(clock)
            cluster.now = min(until, max(cluster.now + self._step, self._following()))
        is_done = not (self._coming or cluster.waiting)
        self.played.until = until if is_done else cluster.now
        for one in list(cluster.running.values()):
            self._note(one, min(one.ends, until) if is_done else min(one.ends, cluster.now))
        self.played.waits = {*cluster.waiting, *(run.id for run in self._coming)}
        return self.played

    def _following(self) -> float:
        """When anything happens next, on the grid of steps."""
        moments = [self._coming[-1].submitted] if self._coming else []
        moments += [self._ends[0][0]] if self._ends else []
        moments += [self._looked + self._look] if self._cluster.waiting else []
        return self._step * ceil(min(moments, default=inf) / self._step) if moments else inf

    def _arrive(self) -> None:
        while self._coming and self._coming[-1].submitted <= self._cluster.now:
            run = self._coming.pop()
            self._cluster.waiting[run.id] = run
            self._has_changed = True

    def _end(self) -> None:
        while self._ends and self._ends[0][0] <= self._cluster.now:
            end, id, began = heappop(self._ends)
            one = self._cluster.running.get(id)
            if one is not None and one.began == began and one.ends == end:
                self._leave(one)

    def _leave(self, one: Placed) -> None:
        """An evicted job waits again in its old place, and will begin from nothing."""
        self._cluster.leave(one.run.id)
        self._has_changed = True
        self._note(one, one.ends)
        if one.is_evicted:
            self._cluster.waiting[one.run.id] = one.run
        else:
            self._policy.ended(one)

    def _note(self, one: Placed, ended: float) -> None:
        self.played.spans.append(Span(one.run.id, one.began, max(one.began, ended), one.is_evicted))

    def _decide(self, clock: Callable[[], float]) -> None:
        self._looked, self._has_changed = self._cluster.now, False
        began = clock()
        starts, evicted = self._policy.decide(self._cluster)
        self.played.decided += clock() - began
        for id in evicted:
            self._evict(self._cluster.running[id])
        self._start_all(starts)

    def _start_all(self, starts: Sequence[Start]) -> None:
        for start in starts:
            ends = self._cluster.now + start.run.seconds
            placed = self._cluster.start(start, ends)
            if placed is None:
                self.played.refused += 1
            else:
                heappush(self._ends, (ends, start.run.id, placed.began))

    def _evict(self, one: Placed) -> None:
        leaves = self._cluster.now + GRACE
        if not one.is_evicted and one.ends > leaves:
            one.is_evicted, one.ends = True, leaves
            heappush(self._ends, (leaves, one.run.id, one.began))
