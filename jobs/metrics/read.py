"""Reads what tasks used: series for plots and the API, and peaks and means beside what was asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jobs.config.spec import JobSpec
from jobs.metrics import places, ring
from jobs.metrics.layout import TIERS
from jobs.models import Attempt, Job, Task
from portal.core.errors import NoJob

FRESH = 60  # seconds: what was known before is not how it is now
OLDEST = TIERS[-1].span  # seconds


@dataclass(frozen=True, slots=True)
class Figure:
    """One column over the whole time of a task; None where nobody knows. ``asked`` as in ``asked_of``."""

    last: float | None
    peak: float | None
    mean: float | None
    asked: float | None = None


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What one task used. ``began`` and ``at``: when it was first and last measured; 0: never."""

    task: Task
    began: int = 0
    at: int = 0
    figures: Mapping[str, Figure] = field(default_factory=dict)  # by column


@dataclass(frozen=True, slots=True)
class Series:
    """Points by column: (seconds since 1970, mean, greatest value) of each bucket of ``step`` seconds that has one."""

    step: int
    points: Mapping[str, list[tuple[int, float, float]]]


def attempt_of(job: Job, number: int = 0) -> Attempt:
    """The attempt of that number, the newest without one. Raises NoJob."""
    attempt = Attempt.objects.filter(job=job, number=number or job.attempt_number).first()
    if attempt is None:
        raise NoJob(f"Job {job.name} has no attempt {number}.")
    return attempt


def task_of(attempt: Attempt, role: str, index: int) -> Task:
    """Raises NoJob."""
    task = Task.objects.filter(attempt=attempt, role=role, index=index).first()
    if task is None:
        raise NoJob(f"There is no task {role}-{index}.")
    return task


def figures(attempt: Attempt, tasks: Iterable[Task], spec: JobSpec) -> list[TaskFigures]:
    """Of each task; one small file is read for each."""
    asked = {role.name: asked_of(spec, role.name) for role in spec.task_roles}
    return [_figures(attempt, task, asked.get(task.role, {})) for task in tasks]


def series(attempt: Attempt, task: Task, begin: int, end: int, step: int = 0) -> Series:
    """Of the time from ``begin`` to ``end`` (seconds since 1970), in steps of ``step`` seconds at least."""
    return read_series(places.of_task(attempt.app_id, task.role, task.index), begin, end, step)


def read_series(path: Path, begin: int, end: int, step: int = 0) -> Series:
    contents = ring.read(path, max(begin, end - OLDEST), end, step)
    if contents is None:
        return Series(TIERS[0].step, {})
    points: dict[str, list[tuple[int, float, float]]] = {name: [] for name in contents.columns}
    for bucket in contents.buckets:
        for name, mean, most in zip(contents.columns, bucket.mean, bucket.most, strict=True):
            if not math.isnan(mean):
                points[name].append((bucket.at, mean, most))
    return Series(contents.step, {name: some for name, some in points.items() if some})


def asked_of(spec: JobSpec, role: str) -> dict[str, float]:
    """{column: what each task of the role asked for}: cores, and bytes."""
    wanted = spec.role(role)
    return {"cpu": wanted.cpu_number, "memory": wanted.memory_mb * 2.0**20, "shared": wanted.shm_mb * 2.0**20}


def span_of(attempt: Attempt, now: float | None = None) -> tuple[int, int]:
    """When the attempt's tasks ran, in seconds since 1970."""
    begin = attempt.launched_at or attempt.created_at
    end = attempt.completed_at.timestamp() if attempt.completed_at else now or time.time()
    return int(begin.timestamp()), math.ceil(end)


def _figures(attempt: Attempt, task: Task, asked: Mapping[str, float]) -> TaskFigures:
    found = ring.summary(places.of_task(attempt.app_id, task.role, task.index))
    if found is None:
        return TaskFigures(task)
    columns, summary = found
    figures = {
        name: Figure(
            one.last if summary.at - one.known <= FRESH else None, _known(one.most), _known(one.mean), asked.get(name)
        )
        for name, one in zip(columns, summary.columns, strict=True)
        if one.count
    }
    return TaskFigures(task, summary.began, summary.at, figures)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
