"""What the tab "Metrics" of a job's page shows: a plot for each measure with all tasks or one, peaks and means beside
what was asked for. All of it is drawn here; a script makes the plots zoom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone

from jobs.config.spec import JobSpec
from jobs.metrics import read
from jobs.metrics.read import TaskFigures
from jobs.models import Attempt, Job, Task
from jobs.pages.rows import job_url
from jobs.plots import draw
from jobs.plots.draw import Grid
from jobs.plots.kinds import KINDS, Kind, of, top_of, write
from portal.core import words
from portal.core.errors import BadRequest

MOST_LINES = 12  # of one plot
MOST_TASKS = 200  # of the table
POINTS = 240  # of a line that the server draws
RANGES = {
    "1h": ("Last hour", 3600),
    "6h": ("Last 6 hours", 21_600),
    "1d": ("Last day", 86_400),
    "all": ("Whole job", 0),
}
_LATEST = 60  # seconds: what was measured longer ago is not how it is now


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a job is shown: times are seconds since 1970."""

    job: Job
    attempt: Attempt
    spec: JobSpec
    tasks: Sequence[Task]  # of the table
    shown: Sequence[Task]  # of the plots
    task: str  # worker-0; "" for all
    range: str
    begin: int
    end: int

    @property
    def is_live(self) -> bool:
        return self.attempt.completed_at is None and self.attempt.launched_at is not None


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Plot:
    """``now``: of the tasks shown together while they run, else their peak; ``limit``: y of what each asked for."""

    kind: Kind
    now: str
    says: str
    paths: Sequence[str]
    labels: Sequence[str]  # of the axis, from the top
    limit: str


def choose(job: Job, params: Mapping[str, str]) -> Choice:
    """Query: attempt, task, range; from and to in seconds win over the range. Raises NoJob, BadRequest."""
    attempt = read.attempt_of(job, number_in(params, "attempt"))
    spec = JobSpec.from_json(job.spec)
    tasks = list(Task.objects.filter(attempt=attempt).order_by("id")[:MOST_TASKS])
    wanted = params.get("task", "")
    shown = [task for task in tasks if task.label == wanted] if wanted else tasks
    first, last = read.span_of(attempt, time.time())
    chosen = params.get("range", "")
    if chosen not in RANGES:
        chosen = "1h" if attempt.completed_at is None and last - first > RANGES["1h"][1] else "all"
    begin = max(first, last - RANGES[chosen][1]) if RANGES[chosen][1] else first
    begin, end = number_in(params, "from") or begin, number_in(params, "to") or last
    if end <= begin:
        raise BadRequest("The end is not after the beginning.")
    return Choice(job, attempt, spec, tasks, shown[:MOST_LINES], wanted if shown else "", chosen, begin, end)


def page(choice: Choice, query: Mapping[str, str]) -> dict[str, Any]:
    """The context of jobs/_tab_metrics.html."""
    found = read.figures(choice.attempt, choice.tasks, choice.spec)
    grid, lines = _lines(choice, POINTS)
    plots = [_plot(kind, choice, lines[kind.key], found) for kind in KINDS if lines[kind.key]]
    missing = [kind for kind in KINDS if not lines[kind.key] and (not kind.of_gpus or choice.job.total_gpus)]
    url = f"{job_url(choice.job.username, choice.job.name)}/metrics"
    return {
        "choice": choice,
        "plots": plots,
        "why_not": _why_not(missing) if any(one.at for one in found) else [],
        "measured": any(one.at for one in found),
        "key": [(f"l{at % 4 + 1}", task.label) for at, task in enumerate(choice.shown)],
        "more_lines": max(0, choice.job.total_tasks - len(choice.shown)) if not choice.task else 0,
        "ticks": ticks(grid),
        "step": words.duration(grid.step),
        "ranges": [(key, name, key == choice.range) for key, (name, _) in RANGES.items()],
        "columns": [kind for kind in KINDS if any(_peak(kind, one) is not None for one in found)],
        "rows": [_row(one) for one in found],
        "numbers": range(choice.job.attempt_number, 0, -1),
        "data": f"{url}/data?{urlencode(_kept(query))}",
        "csv": f"{url}/csv?{urlencode(_kept(query))}",
    }


def data(choice: Choice, points: int, *, apart: bool = True) -> dict[str, Any]:
    """For the script: {"step", "times": [s], "plots": {key: {"lines": [[value or null]], "limit"}}}. Every plot has one
    line for each of ``labels``: a task, or ``apart`` a GPU of the only task."""
    grid, lines = _lines(choice, points, apart=apart)
    plots = {
        kind.key: {
            "unit": kind.unit,
            "labels": [line.label for line in lines[kind.key]],
            "lines": [rounded(one.values) for one in lines[kind.key]],
            "limit": _limit(kind, choice),
        }
        for kind in KINDS
        if lines[kind.key]
    }
    return {"step": grid.step, "times": grid.times, "plots": plots, "from": choice.begin, "to": choice.end}


def _lines(choice: Choice, points: int, *, apart: bool = True) -> tuple[Grid, dict[str, list[Line]]]:
    """Of each kind a line for each task; for one task with several GPUs a line for each of them."""
    span = choice.end - choice.begin
    read_ = [read.series(choice.attempt, task, choice.begin, choice.end, span // points) for task in choice.shown]
    step = max((one.step for one in read_), default=10)
    grid = draw.grid_of(choice.begin, choice.end, step, points)
    lines: dict[str, list[Line]] = {kind.key: [] for kind in KINDS}
    for task, found in zip(choice.shown, read_, strict=True):
        columns = {
            name: draw.on_grid({at: value for at, value, _ in some}, grid) for name, some in found.points.items()
        }
        for kind in KINDS:
            lines[kind.key] += _of_task(kind, task, columns, grid, apart=apart and bool(choice.task))
    known = {key: any(value is not None for line in some for value in line.values) for key, some in lines.items()}
    return grid, {key: some if known[key] else [] for key, some in lines.items()}


def _of_task(
    kind: Kind, task: Task, columns: Mapping[str, Sequence[float | None]], grid: Grid, *, apart: bool
) -> list[Line]:
    ids = [str(id) for id in task.gpu_ids]
    if kind.of_gpus and not ids:
        return []
    if kind.of_gpus and apart and len(ids) > 1:
        nothing = [None] * grid.number
        return [Line(f"GPU {id}", columns.get(f"gpu{id}{kind.column}", nothing)) for id in ids]
    steps = ({name: values[at] for name, values in columns.items()} for at in range(grid.number))
    return [Line(task.label, [of(kind, ids, step) for step in steps])]


def _plot(kind: Kind, choice: Choice, lines: Sequence[Line], found: Sequence[TaskFigures]) -> Plot:
    limit = _limit(kind, choice)
    values = [value for line in lines for value in line.values if value is not None]
    top = top_of(kind, values, limit)
    shown = [one for one in found if one.task in choice.shown]
    now = _now(kind, choice, shown)
    tasks = choice.task or words.count(len(lines), "task")
    return Plot(
        kind=kind,
        now=now,
        says=f"{kind.title} of {tasks}, {RANGES[choice.range][0].lower()}: {now}",
        paths=[draw.path(line.values, top) for line in lines],
        labels=[write(kind, part * top) for part in (1.0, 0.5)] + ["0"],
        limit=f"{draw.HIGH - 1 - (draw.HIGH - 2) * limit / top:.3g}" if limit and kind.key != "cpu" else "",
    )


def _now(kind: Kind, choice: Choice, shown: Sequence[TaskFigures]) -> str:
    """``40 of 66 cores``; after the end the greatest value of any task."""
    fresh = [one for one in shown if choice.end - one.at <= _LATEST] if choice.is_live else []
    if not fresh:
        peaks = [peak for one in shown if (peak := _peak(kind, one)) is not None]
        return f"peak {write(kind, max(peaks))}" if peaks else words.NOTHING
    known = [one for each in fresh if (one := _last(kind, each)) is not None]
    if not known:
        return words.NOTHING
    if kind.of_gpus == "mean":
        return write(kind, sum(known) / len(known))
    asked = sum(read.asked_of(choice.spec, one.task.role).get(kind.column, 0.0) for one in fresh)
    says = write(kind, sum(known))
    return f"{says} of {write(kind, asked)}{' cores' if kind.unit == 'cores' else ''}" if asked else says


def _limit(kind: Kind, choice: Choice) -> float | None:
    """What each task shown asked for, if all asked for the same."""
    asked = {read.asked_of(choice.spec, task.role).get(kind.column) for task in choice.shown}
    return asked.pop() if len(asked) == 1 and not kind.of_gpus else None


def _last(kind: Kind, one: TaskFigures) -> float | None:
    ids = [str(id) for id in one.task.gpu_ids]
    return of(kind, ids, {name: figure.last for name, figure in one.figures.items()})


def _peak(kind: Kind, one: TaskFigures) -> float | None:
    """The greatest value of the task; of its busiest GPU."""
    if not kind.of_gpus:
        return one.figures[kind.column].peak if kind.column in one.figures else None
    names = [f"gpu{id}{kind.column}" for id in one.task.gpu_ids]
    peaks = [peak for name in names if name in one.figures and (peak := one.figures[name].peak) is not None]
    return max(peaks, default=None)


def _mean(kind: Kind, one: TaskFigures) -> float | None:
    ids = [str(id) for id in one.task.gpu_ids]
    return of(kind, ids, {name: figure.mean for name, figure in one.figures.items()})


def _row(one: TaskFigures) -> dict[str, Any]:
    cells = {}
    for kind in KINDS:
        figure = one.figures.get(kind.column)
        asked = figure.asked if figure else None
        cells[kind.key] = (
            write(kind, _peak(kind, one)),
            write(kind, _mean(kind, one)),
            write(kind, asked) if asked else "",
        )
    lasted = words.duration(one.at - one.began) if one.at else words.NOTHING
    return {"label": one.task.label, "node": one.task.node, "cells": cells, "lasted": lasted}


def _why_not(missing: Sequence[Kind]) -> list[tuple[str, str]]:
    """(what, why) of the plots that are not there; those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for kind in missing:
        if kind.why_not:
            reasons.setdefault(kind.why_not, []).append(kind.title)
    return [(", ".join(titles), why) for why, titles in reasons.items()]


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """To five digits: more are not seen, and each takes room."""
    return [None if value is None else float(f"{value:.5g}") for value in values]


def ticks(grid: Grid) -> list[str]:
    """The times at both ends and in the middle."""
    begin, end = grid.begin, grid.begin + grid.step * grid.number
    form = "%H:%M" if end - begin < 86_400 else "%-d %b %H:%M" if end - begin < 14 * 86_400 else "%-d %b"
    moments = (datetime.fromtimestamp(at, UTC) for at in (begin, (begin + end) // 2, end))
    return [timezone.localtime(moment).strftime(form) for moment in moments]


def _kept(query: Mapping[str, str]) -> dict[str, str]:
    return {name: query[name] for name in ("attempt", "task", "range") if query.get(name)}


def number_in(params: Mapping[str, str], name: str) -> int:
    """0 without one."""
    text = params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
