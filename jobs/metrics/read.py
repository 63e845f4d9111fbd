"""Reads what tasks and nodes used: series for plots and the API, peaks and means beside what was asked for, and how it
is now."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.conf import settings

from base.core import words
from base.core.errors import NoJob
from jobs.config.spec import JobSpec
from jobs.metrics import latest, places, rates, ring
from jobs.metrics.layout import TIERS, Mean
from jobs.models import Attempt, Task

OLDEST = TIERS[-1].span  # seconds


@dataclass(frozen=True, slots=True)
class Figure:
    """One column over the whole time of a task; None where nobody knows. ``asked`` as in ``asked_of``."""

    last: float | None
    peak: float | None
    mean: float | None
    asked: float | None = None
    idle_since: int = 0  # of how busy a GPU is: see rates.idle_since


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


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """One GPU; None is what nobody measures. ``idle_since``: see rates.idle_since."""

    util: float | None = None
    memory: float | None = None
    total: float | None = None
    temperature: float | None = None
    idle_since: int = 0

    def says(self, *, held: bool) -> str:
        """``97 % busy, 71.0 of 80.0 GB`` of one that a task holds, ``34 °C`` of a free one."""
        if not held:
            return "" if self.temperature is None else f"{self.temperature:.0f} °C"
        parts = [] if self.util is None else [f"{self.util:.0f} % busy"]
        if self.memory is not None:
            of = f" of {words.size(int(self.total))}" if self.total else ""
            parts.append(f"{words.size(int(self.memory))}{of}")
        return ", ".join(parts)

    def idle_for(self, held_since: datetime | None) -> str:
        """How long the task that holds it since then has not used it, if that is long."""
        since = max(self.idle_since, held_since.timestamp() if held_since else 0.0)
        seconds = time.time() - since
        return words.duration(seconds) if self.idle_since and seconds >= settings.GPU_IDLE_AFTER else ""


def task_of(attempt: Attempt, role: str, index: int) -> Task:
    """Return the task of that role and index. Raises NoJob."""
    task = Task.objects.filter(attempt=attempt, role=role, index=index).first()
    if task is None:
        raise NoJob(f"There is no task {role}-{index}.")
    return task


def figures(attempt: Attempt, tasks: Iterable[Task], spec: JobSpec) -> list[TaskFigures]:
    """The figures of each task. One small file is read for each."""
    asked = {role.name: asked_of(spec, role.name) for role in spec.task_roles}
    return [TaskFigures(task, *figures_of(attempt, task.role, task.index, asked.get(task.role, {}))) for task in tasks]


def figures_of(
    attempt: Attempt, role: str, index: int, asked: Mapping[str, float]
) -> tuple[int, int, dict[str, Figure]]:
    """What one task used: ``began``, ``at`` and ``figures`` as in TaskFigures."""
    summary = ring.summary(places.of_task(attempt.app_id, role, index))
    if summary is None:
        return 0, 0, {}
    known = {
        name: _figure(name, mean, asked.get(name), summary.at) for name, mean in summary.columns.items() if mean.count
    }
    return summary.began, summary.at, known


def series(attempt: Attempt, task: Task, begin: int, end: int, step: int = 0) -> Series:
    """The series of the time from ``begin`` to ``end`` (seconds since 1970), in steps of ``step`` seconds at least."""
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
    """The time in which the attempt's tasks ran, in seconds since 1970."""
    begin = attempt.launched_at or attempt.created_at
    end = attempt.completed_at.timestamp() if attempt.completed_at else now or time.time()
    return int(begin.timestamp()), math.ceil(end)


def gpus_now(node: str, ids: Iterable[str]) -> dict[str, GpuFigures]:
    """What these GPUs do now, by id."""
    now, known, figures = time.time(), latest.read(node), dict[str, GpuFigures]()
    for id in ids:
        since = known.idle_since(latest.of_gpu(id, "util"), now, settings.GPU_IDLE_AFTER)
        columns = ("util", "memory", "total", "temperature")
        util, memory, total, heat = (known.now(latest.of_gpu(id, name), now) for name in columns)
        figures[id] = GpuFigures(util, memory, total, heat, since)
    return figures


def node_now(node: str) -> dict[str, float]:
    """What the tasks of a node use together, by column of rates.OF_A_NODE."""
    now, known = time.time(), latest.read(node)
    values = {name: known.now(name, now) for name in rates.OF_A_NODE}
    return {name: value for name, value in values.items() if value is not None}


def is_util(column: str) -> bool:
    """Whether it says how busy a GPU of a task is."""
    return column.startswith("gpu") and column.endswith("Util")


def _figure(name: str, column: Mean, asked: float | None, at: int) -> Figure:
    last = column.last if rates.is_fresh(column.known, at) else None
    idle = rates.idle_since(column.known, column.busy, time.time(), settings.GPU_IDLE_AFTER) if is_util(name) else 0
    return Figure(last, _known(column.most), _known(column.mean), asked, idle)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
