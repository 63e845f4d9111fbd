"""Reads a past day as it happened: which jobs waited and ran, on which nodes, for how long.

An attempt that was evicted or lost is one run with the attempt that followed it: what the job needed is what its last
attempt took. Jobs that never started are not in it, since nobody knows how long they would have run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from django.db.models import F, Q, QuerySet

from clusters.nodes.queries import load_idle_nodes
from clusters.placement.fit import Demand, NodeView, Placement
from jobs.history.window import Window
from jobs.models import Dependency, Holding
from jobs.planning.replay.cluster import Run, Start
from jobs.planning.replay.day import Span

DAY = 86_400_000
_LATE = 2 * DAY  # a job that waited in the window and started later than this after it is not in it
_AGAIN = (Holding.Outcome.EVICTED, Holding.Outcome.LOST)


@dataclass(frozen=True, slots=True)
class Task:
    """A row of Holding."""

    job_id: int
    attempt: int
    username: str
    job_name: str
    vc: str
    role: str
    index: int
    node: str
    gpu_ids: str
    gpus: int
    gpu_type: str
    cpus: int
    memory_mb: int
    waited: int | None
    began: int
    ended: int | None
    outcome: str
    asked: str


@dataclass
class Past:
    """``runs`` waited in the window; ``running`` ran already when it began, each with the time of its end. ``spans``
    are what really was held. All times are seconds since the window began. ``gone`` are nodes that are not registered
    any more, with what was held of them."""

    seconds: float
    runs: list[Run] = field(default_factory=list)
    running: list[tuple[Start, float, float]] = field(default_factory=list)  # began, ends
    spans: list[Span] = field(default_factory=list)
    nodes: list[NodeView] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def rows_of(window: Window) -> QuerySet[Holding]:
    """What was held in the window, and what waited in it and was held later."""
    later = Q(began__gte=window.end, began__lt=F("waited") + window.end)
    held = Holding.objects.filter(Q(ended__gt=window.begin) | Q(ended=None), began__lt=window.end + _LATE)
    jobs = held.filter(later, began__lt=window.end + _LATE).values("job_id")
    return held.filter(Q(began__lt=window.end) | Q(job_id__in=jobs))


def read(window: Window) -> Past:
    """Three queries and those for the nodes, whatever happened."""
    tasks = [
        Task(*values) for values in rows_of(window).order_by("job_id", "attempt", "id").values_list(*Task.__slots__)
    ]
    past = Past((window.end - window.begin) / 1000)
    past.nodes, past.gone = _nodes(tasks)
    released = _released({one.job_id for one in tasks})
    shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
    for _, of_job in groupby(tasks, key=lambda one: one.job_id):
        attempts = [list(each) for _, each in groupby(of_job, key=lambda one: one.attempt)]
        _add_job(past, attempts, window, released, shapes)
    return past


def _add_job(
    past: Past,
    attempts: Sequence[list[Task]],
    window: Window,
    released: Mapping[int, int],
    shapes: dict[tuple[Demand, ...], tuple[Demand, ...]],
) -> None:
    chain: list[list[Task]] = []
    for at, attempt in enumerate(attempts):
        chain.append(attempt)
        if attempt[0].outcome in _AGAIN and at + 1 < len(attempts):
            continue
        _add_run(past, chain, window, released, shapes)
        chain = []


def _add_run(
    past: Past,
    chain: Sequence[list[Task]],
    window: Window,
    released: Mapping[int, int],
    shapes: dict[tuple[Demand, ...], tuple[Demand, ...]],
) -> None:
    first, last = min(chain[0], key=lambda one: one.waited is None), chain[-1]
    queued = first.began - (first.waited or 0)
    if first.attempt == 1:
        queued = max(queued, min(first.began, released.get(first.job_id, queued)))
    if queued >= window.end:
        return
    goes_on = any(one.ended is None for one in last)
    length = _end(last, window) - min(one.began for one in last)
    seconds = length / 1000 + (past.seconds if goes_on else 0)  # how long what runs now will run is not known
    shape = tuple(_demand(one, first) for one in chain[0])
    run = _run(len(past.runs) + len(past.running) + 1, first, (queued - window.begin) / 1000, seconds)
    run = replace(run, shape=shapes.setdefault(shape, shape))
    for attempt in chain:
        began = (min(one.began for one in attempt) - window.begin) / 1000
        ended = (_end(attempt, window) - window.begin) / 1000
        past.spans.append(Span(run.id, began, ended, attempt[0].outcome == Holding.Outcome.EVICTED))
    if first.began >= window.begin:
        past.runs.append(run)
        return
    began = (first.began - window.begin) / 1000
    ended = (_end(chain[0], window) - window.begin) / 1000
    past.running.append((Start(run, [_place(one) for one in chain[0]]), began, max(began + seconds, ended)))


def _run(id: int, one: Task, submitted: float, seconds: float) -> Run:
    beside: dict[str, Any] = json.loads(one.asked) if one.asked else {}
    return Run(
        id=id,
        vc=one.vc,
        username=one.username,
        name=one.job_name,
        since=f"{submitted + 10**9:017.3f}",
        priority=int(beside.get("priority", 0)),
        shape=(),
        submitted=submitted,
        seconds=max(0.001, seconds),
        preemptible=bool(beside.get("preemptible")),
        limit=beside.get("maxRunSeconds"),
    )


def _demand(one: Task, first: Task) -> Demand:
    beside: dict[str, Any] = json.loads(first.asked) if first.asked else {}
    labels = frozenset(beside.get("nodeLabels", {}).items())
    kind = str(beside.get("gpuType", "")) if one.gpus else ""
    return Demand(
        f"{one.role}-{one.index}", one.role, one.index, one.cpus, one.memory_mb, one.gpus, kind, labels=labels
    )


def _place(one: Task) -> Placement:
    return Placement(one.role, one.index, one.node, "", tuple(one.gpu_ids.split(",")) if one.gpu_ids else ())


def _end(attempt: Iterable[Task], window: Window) -> int:
    return max(window.now if one.ended is None else one.ended for one in attempt)


def _released(jobs: set[int]) -> dict[int, int]:
    """When the last of the jobs ended for which each of these waited."""
    found: dict[int, int] = {}
    ids = sorted(jobs)
    for at in range(0, len(ids), 500):
        rows = Dependency.objects.filter(job_id__in=ids[at : at + 500], on__completed_at__isnull=False)
        for job, ended in rows.values_list("job_id", "on__completed_at"):
            if ended is not None:
                found[job] = max(found.get(job, 0), round(ended.timestamp() * 1000))
    return found


def registered() -> list[NodeView]:
    """As if all were well."""
    return [
        replace(node, offered=True, why_not="", draining=False, marks=(), images=frozenset())
        for node in load_idle_nodes()
    ]


def _nodes(tasks: Sequence[Task]) -> tuple[list[NodeView], list[str]]:
    """The registered nodes, and those that are gone beside them; the names of these."""
    known = registered()
    names = {node.name for node in known}
    of: defaultdict[str, list[Task]] = defaultdict(list)
    for one in tasks:
        if one.node not in names:
            of[one.node].append(one)
    gone = [_as_held(name, held) for name, held in sorted(of.items())]
    return sorted([*known, *gone], key=lambda node: node.name), sorted(of)


def _as_held(name: str, held: Sequence[Task]) -> NodeView:
    """A node that has what was ever held of it at once."""
    gpus = {id: one.gpu_type for one in held for id in (one.gpu_ids.split(",") if one.gpu_ids else ())}
    changes = [(one.began, one.cpus, one.memory_mb) for one in held]
    changes += [(one.ended, -one.cpus, -one.memory_mb) for one in held if one.ended is not None]
    cpus = memory_mb = most_cpus = most_memory = 0
    for _, more, bytes_ in sorted(changes, key=lambda each: (each[0], each[1])):
        cpus, memory_mb = cpus + more, memory_mb + bytes_
        most_cpus, most_memory = max(most_cpus, cpus), max(most_memory, memory_mb)
    return NodeView(name, name, most_cpus, most_memory, tuple(sorted(gpus.items())), 30_000, 39_999)
