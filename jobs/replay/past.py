"""Reads a past day as it happened: which jobs waited and ran, on which nodes, for how long.

An attempt that was evicted or lost is one run with the attempt that followed it: what the job needed is what its last
attempt took. Jobs that never started are not in it, since nobody knows how long they would have run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from django.db.models import F, Q, QuerySet

from base.core.bulk import chunks
from base.core.values import milliseconds
from clusters.nodes.queries import load_idle_nodes
from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.topology import NEAREST
from jobs.config.extras import extras_of
from jobs.history.window import TimeWindow
from jobs.models import Dependency, Holding
from jobs.planning.queue.scene import since_text
from jobs.replay.day import EndedRun, Run, RunStart

DAY = 86_400_000
_LATE = 2 * DAY  # a job that waited in the window and started later than this after it is not in it
_AGAIN = (Holding.Outcome.EVICTED, Holding.Outcome.LOST)


@dataclass
class Past:
    """``runs`` waited in the window; ``running`` ran already when it began, each with the time of its end. ``spans``
    are what really was held. All times are seconds since the window began. ``gone`` are nodes that are not registered
    any more, with what was held of them."""

    seconds: float
    runs: list[Run] = field(default_factory=list)
    running: list[tuple[RunStart, float, float]] = field(default_factory=list)  # began, ends
    stays: list[EndedRun] = field(default_factory=list)
    nodes: list[NodeView] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def rows_of(window: TimeWindow) -> QuerySet[Holding]:
    """What was held in the window, and what waited in it and was held later."""
    later = Q(began__gte=window.end, began__lt=F("waited") + window.end)
    held = Holding.objects.filter(Q(ended__gt=window.begin) | Q(ended=None), began__lt=window.end + _LATE)
    jobs = held.filter(later, began__lt=window.end + _LATE).values("job_id")
    return held.filter(Q(began__lt=window.end) | Q(job_id__in=jobs))


def read_past(window: TimeWindow) -> Past:
    """Three queries and those for the nodes, whatever happened."""
    tasks = list(rows_of(window).order_by("job_id", "attempt", "id"))
    past = Past((window.end - window.begin) / 1000)
    past.nodes, past.gone = _nodes(tasks)
    released = _released({task.job_id for task in tasks})
    shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
    for chain in _chains(tasks):
        first = min(chain[0], key=lambda task: task.waited is None)
        queued = _queued(first, released)
        if queued < window.end:
            _add_run(past, chain, first, queued, window, shapes)
    return past


def _chains(tasks: Iterable[Holding]) -> Iterator[list[list[Holding]]]:
    """The attempts that are one run: what was evicted or lost with what followed it."""
    for _, of_job in groupby(tasks, key=lambda task: task.job_id):
        chain: list[list[Holding]] = []
        for _, attempt in groupby(of_job, key=lambda task: task.attempt):
            chain.append(list(attempt))
            if chain[-1][0].outcome not in _AGAIN:
                yield chain
                chain = []
        if chain:
            yield chain


def _queued(first: Holding, released: Mapping[int, int]) -> int:
    """Since when it waited: not before what it depends on had ended."""
    queued = first.began - (first.waited or 0)
    return queued if first.attempt > 1 else max(queued, min(first.began, released.get(first.job_id, queued)))


def _add_run(
    past: Past,
    chain: Sequence[list[Holding]],
    first: Holding,
    queued: int,
    window: TimeWindow,
    shapes: dict[tuple[Demand, ...], tuple[Demand, ...]],
) -> None:
    last = chain[-1]
    goes_on = any(task.ended is None for task in last)
    length = _end(last, window) - min(task.began for task in last)
    seconds = length / 1000 + (past.seconds if goes_on else 0)  # how long what runs now will run is not known
    asked: dict[str, Any] = json.loads(first.asked) if first.asked else {}
    shape = tuple(_demand(task, asked) for task in chain[0])
    submitted = (queued - window.begin) / 1000
    run = Run(
        id=len(past.runs) + len(past.running) + 1,
        vc=first.vc,
        username=first.username,
        name=first.job_name,
        since=since_text(datetime.fromtimestamp(queued / 1000, UTC)),
        priority=int(asked.get("priority", 0)),
        demands=shapes.setdefault(shape, shape),
        submitted=submitted,
        seconds=max(0.001, seconds),
        is_preemptible=bool(asked.get("preemptible")),
        most_seconds=asked.get("maxRunSeconds"),
    )
    for attempt in chain:
        began = (min(task.began for task in attempt) - window.begin) / 1000
        ended = (_end(attempt, window) - window.begin) / 1000
        past.stays.append(EndedRun(run.id, began, ended, attempt[0].outcome == Holding.Outcome.EVICTED))
    if first.began >= window.begin:
        past.runs.append(run)
        return
    began = (first.began - window.begin) / 1000
    ended = (_end(chain[0], window) - window.begin) / 1000
    past.running.append((RunStart(run, [_place(task) for task in chain[0]]), began, max(began + seconds, ended)))


def _demand(task: Holding, asked: Mapping[str, Any]) -> Demand:
    """``asked`` is what the job asked for beside what is in the columns."""
    labels = frozenset(asked.get("nodeLabels", {}).items())
    kind = str(asked.get("gpuType", "")) if task.gpus else ""
    return Demand(
        *(f"{task.role}-{task.index}", task.role, task.index, task.cpus, task.memory_mb, task.gpus, kind),
        labels=labels,
        topology=extras_of({"topology": asked["topology"]}).closeness if "topology" in asked else NEAREST,
    )


def _place(task: Holding) -> Placement:
    return Placement(task.role, task.index, task.node, "", tuple(task.gpu_ids.split(",")) if task.gpu_ids else ())


def _end(attempt: Iterable[Holding], window: TimeWindow) -> int:
    return max(window.now if task.ended is None else task.ended for task in attempt)


def _released(jobs: set[int]) -> dict[int, int]:
    """When the last of the jobs ended for which each of these waited."""
    released: dict[int, int] = {}
    for ids in chunks(sorted(jobs)):
        rows = Dependency.objects.filter(job_id__in=ids, on__completed_at__isnull=False)
        for job, ended in rows.values_list("job_id", "on__completed_at"):
            if ended is not None:
                released[job] = max(released.get(job, 0), milliseconds(ended))
    return released


def registered() -> list[NodeView]:
    """Return the registered nodes as if all were well."""
    return [
        replace(node, offered=True, why_not="", draining=False, marks=(), images=frozenset())
        for node in load_idle_nodes()
    ]


def _nodes(tasks: Sequence[Holding]) -> tuple[list[NodeView], list[str]]:
    """The registered nodes, and those that are gone beside them; the names of these."""
    known = registered()
    names = {node.name for node in known}
    of: defaultdict[str, list[Holding]] = defaultdict(list)
    for task in tasks:
        if task.node not in names:
            of[task.node].append(task)
    gone = [_as_held(name, held) for name, held in sorted(of.items())]
    return sorted([*known, *gone], key=lambda node: node.name), sorted(of)


def _as_held(name: str, held: Sequence[Holding]) -> NodeView:
    """A node that has what was ever held of it at once."""
    gpus = {id: task.gpu_type for task in held for id in (task.gpu_ids.split(",") if task.gpu_ids else ())}
    changes = [(task.began, task.cpus, task.memory_mb) for task in held]
    changes += [(task.ended, -task.cpus, -task.memory_mb) for task in held if task.ended is not None]
    cpus = memory_mb = most_cpus = most_memory = 0
    for _, more, bytes_ in sorted(changes, key=lambda each: (each[0], each[1])):
        cpus, memory_mb = cpus + more, memory_mb + bytes_
        most_cpus, most_memory = max(most_cpus, cpus), max(most_memory, memory_mb)
    return NodeView(name, name, most_cpus, most_memory, tuple(sorted(gpus.items())), 30_000, 39_999)
