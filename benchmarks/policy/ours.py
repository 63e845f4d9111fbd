"""Longshore's own turns in the simulated day: the very functions that the planner executes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from benchmarks.policy.cluster import Start, State
from benchmarks.policy.workload import DEMAND, GPUS_A_NODE, Wish
from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.shares import Hold, Quota, Right, add, quotas, wholes
from jobs.planning.forecast.lengths import Lengths, Like
from jobs.planning.queue.scene import Scene, Waiting
from jobs.planning.turns import Verdict, turns

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
LEARNT, LEARN_EVERY = 5_000, 600.0  # ended runs, seconds
CPUS, MEMORY_MB = 128, 1_000_000
GUARANTEE = 100 / len(DEMAND)  # percent; each may borrow everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(Waiting):
    """A job of the day as the queue sees it."""

    wish: Wish

    @property
    def demands(self) -> tuple[Demand, ...]:
        return _demands(self.wish.tasks, self.wish.gpus_a_task)

    @property
    def is_preemptible(self) -> bool:
        return self.wish.preemptible

    @property
    def most_seconds(self) -> int | None:
        return None if self.wish.max_run is None else int(self.wish.max_run)


@dataclass(frozen=True, slots=True)
class _Task:
    id: int


class Ours:
    name = "Longshore"

    def __init__(self) -> None:
        self._wanted: dict[int, Wanted] = {}
        self._running: dict[int, tuple[Wanted, Sequence[_Task]]] = {}
        self._places: dict[int, Sequence[Placement]] = {}
        self._holds: dict[str, Hold] = {}
        self._nodes: list[NodeView] = []
        self._quotas: Mapping[str, Quota] = {}
        self._use: dict[str, dict[str, float]] = {}
        self._next_task = 0
        self._ended: deque[tuple[Like, float]] = deque(maxlen=LEARNT)  # the newest first
        self._lengths, self._learn_at = Lengths(()), 0.0

    def decide(self, state: State) -> tuple[Sequence[Start], Sequence[int]]:
        if not self._nodes:
            self._nodes = [_node(at) for at in range(len(state.free))]
            rights = {f"vc{at}": Right(capacity=GUARANTEE) for at in range(len(DEMAND))}
            self._quotas = quotas(rights, *wholes(self._nodes))
        for id in self._running.keys() - state.running.keys():
            self._leave(id, is_over=id not in state.waiting)
        if state.now >= self._learn_at:
            self._lengths, self._learn_at = Lengths(self._ended), state.now + LEARN_EVERY
        scene = Scene(
            nodes=self._nodes,
            now=MIDNIGHT + timedelta(seconds=state.now),
            quotas=self._quotas,
            use=self._use,
            running=lambda: [self._as_it_runs(id, state) for id in self._running],
            holds=self._holds,
            lengths=lambda: self._lengths,
        )
        waiting = [self._as_it_waits(wish, state) for wish in state.waiting.values()]
        starts, evicted = list[Start](), list[int]()
        for turn in list(turns(waiting, scene, only_tried=True)):
            if turn.error is not None:
                raise turn.error
            evicted += [holder.job.id for holder in turn.victims]
            if turn.verdict is Verdict.GO:
                self._take(turn.job, turn.places, state.now, is_guest=turn.is_guest)
                starts.append(Start(turn.job.wish, [int(one.node) for one in turn.places], turn.is_guest))
        return starts, evicted

    def _as_it_waits(self, wish: Wish, state: State) -> Wanted:
        evictions = state.guest_evictions.get(wish.id, 0)
        if wish.id not in self._wanted or self._wanted[wish.id].guest_evictions != evictions:
            self._wanted[wish.id] = Wanted(
                id=wish.id,
                vc=f"vc{wish.vc}",
                username=wish.user,
                name=wish.project,
                since=f"{wish.submitted:015.3f}",
                guest_evictions=evictions,
                wish=wish,
            )
        return self._wanted[wish.id]

    def _as_it_runs(self, id: int, state: State) -> tuple[Wanted, Sequence[_Task]]:
        job, tasks = self._running[id]
        return replace(job, stopping=state.running[id].is_evicted), tasks

    def _take(self, job: Wanted, places: Sequence[Placement], now: float, *, is_guest: bool) -> None:
        tasks = [_Task(self._next_task + at) for at in range(len(places))]
        self._next_task += len(places)
        began = MIDNIGHT + timedelta(seconds=now)
        started = replace(job, is_guest=is_guest, started_at=began, ends_by=job.would_end(began))
        self._running[job.id] = started, tasks
        self._places[job.id] = places
        for task, demand, place in zip(tasks, job.demands, places, strict=True):
            self._holds[str(task.id)] = Hold(job.vc, place.node, demand.cpus, demand.memory_mb, place.gpu_ids, ())
            self._change(demand, place, 1)
        self._count(job, 1)

    def _leave(self, id: int, *, is_over: bool) -> None:
        job, tasks = self._running.pop(id)
        if is_over:
            like = Like(job.username, job.name, job.wish.gpus_a_task, job.vc)
            self._ended.appendleft((like, job.wish.duration))
        for task, demand, place in zip(tasks, job.demands, self._places.pop(id), strict=True):
            del self._holds[str(task.id)]
            self._change(demand, place, -1)
        self._count(job, -1)

    def _change(self, demand: Demand, place: Placement, sign: int) -> None:
        node = self._nodes[int(place.node)]
        used = node.used_gpus.union(place.gpu_ids) if sign > 0 else node.used_gpus.difference(place.gpu_ids)
        self._nodes[int(place.node)] = replace(
            node,
            used_cpus=node.used_cpus + sign * demand.cpus,
            used_memory_mb=node.used_memory_mb + sign * demand.memory_mb,
            used_gpus=used,
        )

    def _count(self, job: Wanted, sign: int) -> None:
        more = {
            "cpu": sum(demand.cpus for demand in job.demands),
            "memory": sum(demand.memory_mb for demand in job.demands),
            "gpu": sum(demand.gpus for demand in job.demands),
        }
        add(self._use.setdefault(job.vc, {}), more, sign)


@cache
def _demands(tasks: int, gpus: int) -> tuple[Demand, ...]:
    return tuple(Demand(f"worker-{at}", "worker", at, 4 * gpus, 8_000 * gpus, gpus, "") for at in range(tasks))


def _node(at: int) -> NodeView:
    gpus = tuple((str(id), "") for id in range(GPUS_A_NODE))
    return NodeView(str(at), "10.0.0.1", CPUS, MEMORY_MB, gpus, 30_000, 39_999)
