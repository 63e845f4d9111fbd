"""Collects the evidence of a failed attempt: its rows, the last lines of its archived logs, and what its nodes went
through meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import Max
from django.utils import timezone

from base.core.errors import LongshoreError
from clusters.models import Node
from jobs.config.spec import JobSpec
from jobs.diagnosis.evidence import Evidence, EvidenceLine, TaskEvidence
from jobs.logs.places import STREAMS, place_of
from jobs.logs.read import last_lines, open_archive
from jobs.metrics.read import TaskFigures, figures
from jobs.models import Attempt, Event, Task
from jobs.planning.lifecycle import JOB_END_STATES, TaskState

LINES = 200  # of each stream of a task
MOST_TASKS = 32  # whose logs are read: of a large gang those that failed first
BEFORE = timedelta(minutes=2)  # a node's trouble may be noticed somewhat before the attempt feels it


def evidence_of(attempt: Attempt) -> Evidence:
    """What is known of an attempt that has ended. A log that cannot be read now counts as empty."""
    spec = JobSpec.from_json(attempt.job.spec)
    failed = Task.objects.filter(attempt=attempt, state=TaskState.FAILED).order_by("finished_at", "id")
    tasks = list(failed.select_related("job", "attempt")[:MOST_TASKS])
    if tasks and len(tasks) < MOST_TASKS:  # one that hung after its error, and was stopped
        stopped = Task.objects.filter(attempt=attempt, state=TaskState.STOPPED).exclude(container_id="")
        tasks += stopped.order_by("id").select_related("job", "attempt")[: MOST_TASKS - len(tasks)]
    end = attempt.exit or {}
    return Evidence(
        exit=attempt.exit_code or 0,
        is_over=attempt.job.state in JOB_END_STATES,
        sentence=str(end.get("reason", "")),
        tasks=[_task(used.task, spec, used) for used in figures(attempt, tasks, spec)],
        decided_by=f"{end['role']}-{end['index']}" if end.get("role") and end.get("index") is not None else "",
        events=_events(attempt, {task.node for task in tasks if task.node}),
        most_memory_mb=Node.objects.aggregate(most=Max("memory_mb"))["most"] or 0,
    )


def _task(task: Task, spec: JobSpec, used: TaskFigures) -> TaskEvidence:
    end: dict[str, Any] = task.exit or {}
    memory = used.figures.get("memory")
    role = spec.role(task.role)
    return TaskEvidence(
        label=task.label,
        role=task.role,
        node=task.node,
        code=end.get("raw_code"),
        exit=task.exit_code,
        signal=end.get("signal") or "",
        oom=bool(end.get("oom")),
        fault=end.get("fault") or "",
        sentence=str(end.get("sentence", "")),
        stopped=task.state == TaskState.STOPPED,
        ended=task.finished_at,
        memory_mb=role.memory_mb,
        shm_mb=role.shm_mb,
        peak_mb=memory.peak / 2**20 if memory and memory.peak is not None else None,
        lines=tuple(_lines(task)),
    )


def _lines(task: Task) -> Iterable[EvidenceLine]:
    if not task.container_id:
        return
    for stream in STREAMS:
        try:
            log = open_archive(place_of(task), stream)
            lines = last_lines(log, LINES) if log else []
        except (LongshoreError, OSError):
            continue
        # No database takes a NUL into a text.
        yield from (EvidenceLine(stream, line.number, line.text.replace("\0", "\ufffd")) for line in lines)


def _events(attempt: Attempt, nodes: set[str]) -> dict[str, list[str]]:
    """{kind: nodes}, of what happened to the nodes of its tasks while it ran."""
    since = (attempt.launched_at or attempt.created_at) - BEFORE
    until = attempt.completed_at or timezone.now()
    rows = Event.objects.filter(kind__startswith="node.", node__in=nodes, at__gte=since, at__lte=until)
    nodes_of: dict[str, list[str]] = {}
    for kind, node in rows.order_by("id").values_list("kind", "node")[:1000]:
        nodes_of.setdefault(kind, []).append(node)
    return nodes_of
