"""Plays a day on simulated nodes: jobs come and end, and every half a minute a policy says which start and which are
evicted. Pure but for the policy."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.policy.workload import DAY, GPUS_A_NODE, Wish

STEP = 30.0  # seconds between two decisions; an evicted job has its GPUs until the next one
LATEST = 3 * DAY  # whatever has not started then is starved


@dataclass(slots=True)
class Run:
    """A job on its nodes: one entry of ``nodes`` for each task."""

    wish: Wish
    nodes: Sequence[int]
    began: float
    ends: float
    is_guest: bool = False
    is_evicted: bool = False  # it is about to leave its nodes


@dataclass(frozen=True, slots=True)
class Start:
    wish: Wish
    nodes: Sequence[int]
    is_guest: bool = False


@dataclass(slots=True)
class State:
    """What a policy may look at. ``waiting`` by time of submission; of a run it may know the end only by foresight."""

    now: float
    free: list[int]  # GPUs, by node
    waiting: dict[int, Wish]
    running: Mapping[int, Run]
    guest_evictions: Mapping[int, int]


class Policy(Protocol):
    name: str

    def decide(self, state: State) -> tuple[Sequence[Start], Sequence[int]]:
        """Which waiting jobs start where now, and the ids of running ones that are evicted."""
        ...


@dataclass(slots=True)
class Played:
    """What happened in one day. ``waits`` of each job, in seconds, until it started for the last time."""

    waits: dict[int, float] = field(default_factory=dict)
    used: float = 0.0  # GPU-seconds of the day that jobs held
    lost: float = 0.0  # of these, by runs that were evicted
    evictions: int = 0
    served: dict[int, float] = field(default_factory=dict)  # GPU-seconds of the day by virtual cluster
    starved: int = 0
    decided: float = 0.0  # seconds of CPU that the policy took


class Day:
    def __init__(self, wishes: Sequence[Wish], nodes: int, policy: Policy) -> None:
        self._coming = list(reversed(wishes))
        self._policy = policy
        self._running: dict[int, Run] = {}
        self._ends: list[tuple[float, int, float]] = []  # end, id, begin: an entry of an evicted run is stale
        self._evicted: dict[int, int] = {}
        self._state = State(0.0, [GPUS_A_NODE] * nodes, {}, self._running, self._evicted)
        self.played = Played()

    def play(self, clock: Clock) -> Played:
        state = self._state
        while state.now < LATEST and (self._coming or state.waiting):
            self._arrive()
            self._end()
            if state.waiting:
                began = clock()
                starts, evicted = self._policy.decide(state)
                self.played.decided += clock() - began
                for id in evicted:
                    self._evict(id)
                for start in starts:
                    self._start(start)
            state.now += STEP
        for run in self._running.values():
            self._count(run, DAY)
        self.played.starved = len(state.waiting) + len(self._coming)
        return self.played

    def _arrive(self) -> None:
        while self._coming and self._coming[-1].submitted <= self._state.now:
            wish = self._coming.pop()
            self._state.waiting[wish.id] = wish

    def _end(self) -> None:
        while self._ends and self._ends[0][0] <= self._state.now:
            _, id, began = heapq.heappop(self._ends)
            run = self._running.get(id)
            if run is not None and run.began == began and run.ends <= self._state.now:
                self._leave(run)

    def _start(self, start: Start) -> None:
        wish, now = start.wish, self._state.now
        for node in start.nodes:
            self._state.free[node] -= wish.gpus_a_task
            if self._state.free[node] < 0:
                raise AssertionError(f"{self._policy.name} put too much on node {node}")
        if len(start.nodes) != wish.tasks:
            raise AssertionError(f"{self._policy.name} placed a part of a gang")
        del self._state.waiting[wish.id]
        self._running[wish.id] = run = Run(wish, start.nodes, now, now + wish.duration, start.is_guest)
        heapq.heappush(self._ends, (run.ends, wish.id, now))
        self.played.waits[wish.id] = now - wish.submitted

    def _evict(self, id: int) -> None:
        run, leaves = self._running[id], self._state.now + STEP
        if run.is_evicted or run.ends <= leaves:
            return
        run.is_evicted, run.ends = True, leaves
        self._evicted[id] = self._evicted.get(id, 0) + run.is_guest
        self.played.evictions += 1
        self.played.lost += (leaves - run.began) * run.wish.gpus
        heapq.heappush(self._ends, (leaves, id, run.began))

    def _leave(self, run: Run) -> None:
        """An evicted job waits again in its old place, and will begin from nothing."""
        del self._running[run.wish.id]
        if run.is_evicted:
            self._state.waiting[run.wish.id] = run.wish
        for node in run.nodes:
            self._state.free[node] += run.wish.gpus_a_task
        self._count(run, self._state.now)

    def _count(self, run: Run, until: float) -> None:
        held = max(0.0, min(until, run.ends, DAY) - run.began) * run.wish.gpus
        self.played.used += held
        self.played.served[run.wish.vc] = self.played.served.get(run.wish.vc, 0.0) + held


class Clock(Protocol):
    def __call__(self) -> float: ...
