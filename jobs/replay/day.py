"""Plays a day: jobs come and end, and after each of that a policy says which start and which are evicted. Pure. Times
are seconds since the day began."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from heapq import heappop, heappush
from math import ceil, inf
from typing import NamedTuple

from clusters.placement.fit import Demand, NodeView, Placement, with_tasks
from clusters.placement.free import FreeNodes
from clusters.placement.shares import Quota, add, named_gpus, nodes_without, taken, wanted
from jobs.planning.queue.scene import KnownJob, Rests, Runner, as_evicted, as_owner, holds_at, rests_after
from jobs.planning.queue.users.shares import after_run
from jobs.planning.queue.users.used_lately import UsedLately

GRACE = 30.0  # seconds that an evicted job takes to leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(KnownJob):
    """A job of the day: since when it waited, and how long it ran. Runs of one shape share the same demands."""

    submitted: float
    seconds: float

    @property
    def gpus(self) -> int:
        return sum(demand.gpus for demand in self.demands)

    @property
    def cpus(self) -> int:
        return sum(demand.cpus for demand in self.demands)


@dataclass(slots=True)
class PlacedRun:
    """A run on its nodes. ``runner`` is what the queue sees of it."""

    run: Run
    runner: Runner[Run]
    placements: Sequence[Placement]
    began: float
    ends: float

    @property
    def is_evicted(self) -> bool:
        """Whether it is about to leave."""
        return self.runner.job.stopping

    def evict(self, leaves: float) -> None:
        self.runner, self.ends = replace(self.runner, job=replace(self.runner.job, stopping=True)), leaves


class RunStart(NamedTuple):
    """``placements`` may leave open which GPUs: then any free ones of the node are taken."""

    run: Run
    placements: Sequence[Placement]
    is_guest: bool = False


@dataclass
class ReplayCluster:
    """``midnight`` is the moment at which the day began."""

    views: dict[str, NodeView]
    quotas: Mapping[str, Quota]
    midnight: datetime
    now: float = 0.0
    waiting: dict[int, Run] = field(default_factory=dict)
    running: dict[int, PlacedRun] = field(default_factory=dict)
    use: dict[str, dict[str, float]] = field(default_factory=dict)
    rests: Rests = field(default_factory=dict)
    past: dict[tuple[str, str], UsedLately] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[NodeView], quotas: Mapping[str, Quota], midnight: datetime) -> ReplayCluster:
        return cls({node.name: node for node in nodes}, quotas, midnight)

    @property
    def nodes(self) -> list[NodeView]:
        return list(self.views.values())

    @cached_property
    def types(self) -> Mapping[str, Mapping[str, str]]:
        return {node.name: dict(node.gpus) for node in self.views.values()}

    def free(self) -> FreeNodes:
        """What is free on its nodes, as the planner sees it."""
        return FreeNodes(self.nodes, wanted=wanted(self.nodes, self.named))

    @property
    def named(self) -> Mapping[str, int]:
        """How many GPUs of each type those that wait or run ask for by its name."""
        runs = [*self.waiting.values(), *(placed.run for placed in self.running.values())]
        return named_gpus([run.demands for run in runs])

    def at(self, seconds: float) -> datetime:
        return self.midnight + timedelta(seconds=seconds)

    def in_order(self) -> list[Run]:
        """Return those that wait, first the one that has waited for longest."""
        return sorted(self.waiting.values(), key=lambda run: (run.submitted, run.id))

    def start(self, start: RunStart, ends: float) -> PlacedRun | None:
        """Put a run on its nodes; None, and nothing changes, where a node has no such room."""
        run = start.run
        placements = self._found(run.demands, start.placements)
        if placements is None or len(placements) != len(run.demands):
            return None
        began = self.at(self.now)
        ends_by = run.would_end(began)
        runs = replace(run, is_guest=start.is_guest, started_at=began, ends_by=ends_by, keeps_turn=False)
        for demand, place in zip(run.demands, placements, strict=True):
            self.views[place.node] = with_tasks(self.views[place.node], [(demand, place)])
        add(self.use.setdefault(run.vc, {}), taken(run.demands, placements, self.types))
        self.waiting.pop(run.id, None)
        self.rests = rests_after(self.rests, run.displaced, run.title, began)
        placed = PlacedRun(run, Runner(runs, holds_at(run, placements)), placements, self.now, ends)
        self.running[run.id] = placed
        return placed

    def leave(self, id: int) -> PlacedRun:
        placed = self.running.pop(id)
        half_life = self.quotas.get(placed.run.vc, Quota()).half_life
        after_run(self.past, placed.runner, self.at(self.now), half_life)
        add(self.use[placed.run.vc], taken(placed.run.demands, placed.placements, self.types), -1)
        for hold in placed.runner.holds:
            [self.views[hold.node]] = nodes_without([self.views[hold.node]], [hold])
        return placed

    def _found(self, shape: Sequence[Demand], placements: Sequence[Placement]) -> list[Placement] | None:
        """The places with GPUs that are free; None where there are too few."""
        places: list[Placement] = []
        left: dict[str, tuple[int, int, list[tuple[str, str]]]] = {}
        for demand, place in zip(shape, placements, strict=True):
            node = self.views.get(place.node)
            if node is None:
                return None
            if place.node not in left:
                free = [gpu for gpu in node.gpus if gpu[0] not in node.used_gpus]
                left[place.node] = node.cpus - node.used_cpus, node.memory_mb - node.used_memory_mb, free
            cpus, memory_mb, free = left[place.node]
            wanted = place.gpu_ids or [id for id, kind in free if demand.gpu_type in ("", kind)][: demand.gpus]
            kept = [gpu for gpu in free if gpu[0] not in wanted]
            if len(wanted) != demand.gpus or len(free) - len(kept) != demand.gpus:
                return None
            left[place.node] = cpus - demand.cpus, memory_mb - demand.memory_mb, kept
            if min(left[place.node][:2]) < 0:
                return None
            places.append(replace(place, gpu_ids=tuple(wanted)))
        return places


class EndedRun(NamedTuple):
    """A run held its room from ``began`` to ``ended``."""

    id: int
    began: float
    ended: float
    is_evicted: bool = False


@dataclass(slots=True)
class Played:
    """What happened. ``until`` is how far the day was played."""

    stays: list[EndedRun] = field(default_factory=list)
    waits: set[int] = field(default_factory=set)  # what has not started, or waits again
    until: float = 0.0
    refused: int = 0  # starts for which there was no room after all


Chosen = tuple[Sequence[RunStart], Mapping[int, int]]


class ReplayPolicy:
    name: str

    def decide(self, cluster: ReplayCluster) -> Chosen:
        """Which waiting jobs start now and where, and by the ids of running ones that are evicted those for which."""
        raise NotImplementedError

    def ended(self, placed: PlacedRun) -> None:
        """A run has come to its own end: what can be learnt of it."""


class Day:
    """``runs`` come by their time of submission. The queue is looked at after what happens, ``step`` seconds apart at
    least, and every ``look`` seconds while anybody waits."""

    def __init__(
        self, runs: Iterable[Run], cluster: ReplayCluster, policy: ReplayPolicy, *, step: float, look: float
    ) -> None:
        self._coming = sorted(runs, key=lambda run: (run.submitted, run.id), reverse=True)
        self._cluster, self._policy, self._step, self._look = cluster, policy, step, look
        self._ends: list[tuple[float, int, float]] = []  # end, id, begin: an entry of an evicted run is stale
        for placed in cluster.running.values():
            heappush(self._ends, (placed.ends, placed.run.id, placed.began))
        self._looked, self._has_changed = -inf, True
        self.played = Played()

    def play(self, until: float, is_over: Callable[[float], bool] = lambda now: False) -> Played:
        """Play up to this time, or until nothing waits any more and nothing comes. ``is_over`` is asked at each step
        with the time of the day, and may end it there."""
        cluster = self._cluster
        while cluster.now < until and self._goes_on() and not is_over(cluster.now):
            self._arrive()
            self._end()
            if cluster.waiting and (self._has_changed or cluster.now - self._looked >= self._look):
                self._decide()
            cluster.now = min(until, max(cluster.now + self._step, self._following()))
        is_done = not (self._coming or cluster.waiting)
        self.played.until = until if is_done else cluster.now
        for placed in list(cluster.running.values()):
            self._note(placed, min(placed.ends, until) if is_done else min(placed.ends, cluster.now))
        self.played.waits = {*cluster.waiting, *(run.id for run in self._coming)}
        return self.played

    def _goes_on(self) -> bool:
        """Who is evicted waits again once it has left, even where its owner has started elsewhere meanwhile."""
        running = self._cluster.running.values()
        return bool(self._coming or self._cluster.waiting) or any(placed.is_evicted for placed in running)

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
            placed = self._cluster.running.get(id)
            if placed is not None and placed.began == began and placed.ends == end:
                self._leave(placed)

    def _leave(self, placed: PlacedRun) -> None:
        """An evicted job waits again in its old place, remembers that, and will begin from nothing."""
        self._cluster.leave(placed.run.id)
        self._has_changed = True
        self._note(placed, placed.ends)
        if placed.is_evicted:
            self._cluster.waiting[placed.run.id] = as_evicted(placed.runner.job)
        else:
            self._policy.ended(placed)

    def _note(self, placed: PlacedRun, ended: float) -> None:
        self.played.stays.append(EndedRun(placed.run.id, placed.began, max(placed.began, ended), placed.is_evicted))

    def _decide(self) -> None:
        self._looked, self._has_changed = self._cluster.now, False
        starts, victims = self._policy.decide(self._cluster)
        for id, owner in victims.items():
            self._evict(self._cluster.running[id], owner)
        for start in starts:
            ends = self._cluster.now + start.run.seconds
            placed = self._cluster.start(start, ends)
            if placed is None:
                self.played.refused += 1
            else:
                heappush(self._ends, (ends, start.run.id, placed.began))

    def _evict(self, placed: PlacedRun, owner: int) -> None:
        cluster = self._cluster
        leaves = cluster.now + GRACE
        if not placed.is_evicted and placed.ends > leaves:
            cluster.waiting[owner] = as_owner(cluster.waiting[owner], [placed.runner])
            placed.evict(leaves)
            heappush(self._ends, (leaves, placed.run.id, placed.began))
