"""What the tab "Metrics" of a job's page shows: a plot for each measure with all tasks or one, peaks and means beside
what was asked for. All of it is drawn here; a script makes the plots zoom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlencode

from django.utils import timezone

from base.core import words
from base.core.errors import BadRequest
from clusters.engines import schemes
from clusters.models import Node
from jobs import queries
from jobs.config.spec import JobSpec
from jobs.metrics import read
from jobs.metrics.read import TaskFigures
from jobs.models import Attempt, Job, Task
from portal.metrics import draw
from portal.metrics.draw import Grid
from portal.metrics.kinds import KINDS, PlotKind, of, top_of, write
from portal.shared.jobs.rows import job_url

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
class PlotChoice:
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


Lines = Mapping[str, Mapping[str, Sequence[float | None]]]  # {key of the kind: {label of the line: values}}


@dataclass(frozen=True, slots=True)
class Plot:
    """``now``: of the tasks shown together while they run, else their peak; ``limit``: y of what each asked for."""

    kind: PlotKind
    now: str
    says: str
    paths: Sequence[str]
    labels: Sequence[str]  # of the axis, from the top
    limit: str


def choose(job: Job, params: Mapping[str, str]) -> PlotChoice:
    """Query: attempt, task, range; from and to in seconds win over the range. Raises NoJob, BadRequest."""
    attempt = queries.get_attempt(job, number_in(params, "attempt") or job.attempt_number)
    spec = JobSpec.from_json(job.spec)
    tasks = list(Task.objects.filter(attempt=attempt).order_by("id")[:MOST_TASKS])
    wanted = params.get("task", "")
    shown = [task for task in tasks if task.label == wanted] if wanted else tasks
    first, last = read.span_of(attempt, time.time())
    chosen = params.get("range", "")
    if chosen not in RANGES:
        chosen = "1h" if attempt.completed_at is None and last - first > RANGES["1h"][1] else "all"
    begin = max(first, last - RANGES[chosen][1]) if RANGES[chosen][1] else first
    span = span_in(params, begin, last)
    return PlotChoice(job, attempt, spec, tasks, shown[:MOST_LINES], wanted if shown else "", chosen, *span)


def page(choice: PlotChoice, query: Mapping[str, str]) -> dict[str, Any]:
    """The context of job/_tab_metrics.html."""
    used = read.figures(choice.attempt, choice.tasks, choice.spec)
    is_measured = any(task.at for task in used)
    grid, lines = _lines(choice, POINTS)
    plots = [_plot(kind, choice, lines[kind.key], used) for kind in KINDS if lines[kind.key]]
    missing = [kind for kind in KINDS if not lines[kind.key] and (not kind.of_gpus or choice.job.total_gpus)]
    url = f"{job_url(choice.job.username, choice.job.name)}/metrics"
    return {
        "choice": choice,
        "plots": plots,
        "why_not": _why_not(missing) if is_measured else [],
        "measured": is_measured,
        "unmeasured": not is_measured and _is_unmeasured(choice.tasks),
        "key": [(f"l{at % 4 + 1}", task.label) for at, task in enumerate(choice.shown)],
        "more_lines": max(0, choice.job.total_tasks - len(choice.shown)) if not choice.task else 0,
        "ticks": ticks(grid),
        "step": words.duration(grid.step),
        "ranges": [(key, name, key == choice.range) for key, (name, _) in RANGES.items()],
        "columns": [kind for kind in KINDS if any(_peak(kind, task) is not None for task in used)],
        "rows": [_row(task) for task in used],
        "numbers": range(choice.job.attempt_number, 0, -1),
        "data": f"{url}/data?{urlencode(_kept(query))}",
        "csv": f"{url}/csv?{urlencode(_kept(query))}",
    }


def _is_unmeasured(tasks: Sequence[Task]) -> bool:
    """Whether some of them are on nodes whose engine does not say what they use."""
    nodes = Node.objects.filter(name__in={task.node for task in tasks})
    return any(map(schemes.stands_for_many, nodes.values_list("endpoint", flat=True)))


def data(choice: PlotChoice, points: int, *, apart: bool = True) -> dict[str, Any]:
    """What the script gets: {"step", "times": [s], "plots": {key: {"lines": [[value or null]], "limit"}}}. Every plot
    has one line for each of ``labels``: a task, or ``apart`` a GPU of the only task."""
    limits = {kind.key: _limit(kind, choice) for kind in KINDS}
    return as_data(*_lines(choice, points, apart=apart), KINDS, limits, choice.begin, choice.end)


def as_data(
    grid: Grid, lines: Lines, kinds: Sequence[PlotKind], limits: Mapping[str, float | None], begin: int, end: int
) -> dict[str, Any]:
    plots = {
        kind.key: {
            "unit": kind.unit,
            "labels": list(lines[kind.key]),
            "lines": [_rounded(values) for values in lines[kind.key].values()],
            "limit": limits.get(kind.key),
        }
        for kind in kinds
        if lines[kind.key]
    }
    return {"step": grid.step, "times": grid.times, "plots": plots, "from": begin, "to": end}


def _lines(choice: PlotChoice, points: int, *, apart: bool = True) -> tuple[Grid, Lines]:
    """The lines of each kind: one for each task; for one task with several GPUs a line for each of them."""
    span = choice.end - choice.begin
    measured = [read.series(choice.attempt, task, choice.begin, choice.end, span // points) for task in choice.shown]
    step = max((series.step for series in measured), default=10)
    grid = draw.grid_of(choice.begin, choice.end, step, points)
    lines: dict[str, dict[str, Sequence[float | None]]] = {kind.key: {} for kind in KINDS}
    for task, series in zip(choice.shown, measured, strict=True):
        columns = {name: draw.on_grid(points, grid) for name, points in series.points.items()}
        for kind in KINDS:
            lines[kind.key] |= _of_task(kind, task, columns, grid, apart=apart and bool(choice.task))
    return grid, {key: some if is_known(some) else {} for key, some in lines.items()}


def is_known(lines: Mapping[str, Sequence[float | None]]) -> bool:
    return any(value is not None for values in lines.values() for value in values)


def _of_task(
    kind: PlotKind, task: Task, columns: Mapping[str, Sequence[float | None]], grid: Grid, *, apart: bool
) -> dict[str, Sequence[float | None]]:
    ids = [str(id) for id in task.gpu_ids]
    if kind.of_gpus and not ids:
        return {}
    if kind.of_gpus and apart and len(ids) > 1:
        nothing = [None] * grid.number
        return {f"GPU {id}": columns.get(f"gpu{id}{kind.column}", nothing) for id in ids}
    steps = ({name: values[at] for name, values in columns.items()} for at in range(grid.number))
    return {task.label: [of(kind, ids, step) for step in steps]}


def _plot(
    kind: PlotKind, choice: PlotChoice, lines: Mapping[str, Sequence[float | None]], used: Sequence[TaskFigures]
) -> Plot:
    now = _now(kind, choice, [task for task in used if task.task in choice.shown])
    tasks = choice.task or words.count(len(lines), "task")
    says = f"{kind.title} of {tasks}, {RANGES[choice.range][0].lower()}: {now}"
    return plot(kind, lines, _limit(kind, choice), now, says, shows_limit=kind.key != "cpu")


def plot(
    kind: PlotKind,
    lines: Mapping[str, Sequence[float | None]],
    limit: float | None,
    now: str,
    says: str,
    *,
    shows_limit: bool = True,
) -> Plot:
    top = top_of(kind, [value for values in lines.values() for value in values if value is not None], limit)
    return Plot(
        kind=kind,
        now=now,
        says=says,
        paths=[draw.path(values, top) for values in lines.values()],
        labels=[write(kind, part * top) for part in (1.0, 0.5)] + ["0"],
        limit=f"{draw.HIGH - 1 - (draw.HIGH - 2) * limit / top:.3g}" if limit and shows_limit else "",
    )


def _now(kind: PlotKind, choice: PlotChoice, shown: Sequence[TaskFigures]) -> str:
    """``40 of 66 cores``; after the end the greatest value of any task."""
    fresh = [task for task in shown if choice.end - task.at <= _LATEST] if choice.is_live else []
    if not fresh:
        peaks = [peak for task in shown if (peak := _peak(kind, task)) is not None]
        return f"peak {write(kind, max(peaks))}" if peaks else words.NOTHING
    known = [last for task in fresh if (last := _value(kind, task, "last")) is not None]
    if not known:
        return words.NOTHING
    if kind.of_gpus == "mean":
        return write(kind, sum(known) / len(known))
    asked = sum(read.asked_of(choice.spec, task.task.role).get(kind.column, 0.0) for task in fresh)
    says = write(kind, sum(known))
    return f"{says} of {write(kind, asked)}{' cores' if kind.unit == 'cores' else ''}" if asked else says


def _limit(kind: PlotKind, choice: PlotChoice) -> float | None:
    """What each task shown asked for, if all asked for the same."""
    asked = {read.asked_of(choice.spec, task.role).get(kind.column) for task in choice.shown}
    return asked.pop() if len(asked) == 1 and not kind.of_gpus else None


def _value(kind: PlotKind, used: TaskFigures, which: Literal["last", "mean"]) -> float | None:
    ids = [str(id) for id in used.task.gpu_ids]
    return of(kind, ids, {name: getattr(figure, which) for name, figure in used.figures.items()})


def _peak(kind: PlotKind, used: TaskFigures) -> float | None:
    """The greatest value of the task; of its busiest GPU."""
    if not kind.of_gpus:
        return used.figures[kind.column].peak if kind.column in used.figures else None
    names = [f"gpu{id}{kind.column}" for id in used.task.gpu_ids]
    peaks = [peak for name in names if name in used.figures and (peak := used.figures[name].peak) is not None]
    return max(peaks, default=None)


def _row(used: TaskFigures) -> dict[str, Any]:
    cells = {}
    for kind in KINDS:
        figure = used.figures.get(kind.column)
        asked = figure.asked if figure else None
        cells[kind.key] = (
            write(kind, _peak(kind, used)),
            write(kind, _value(kind, used, "mean")),
            write(kind, asked) if asked else "",
        )
    lasted = words.duration(used.at - used.began) if used.at else words.NOTHING
    return {"label": used.task.label, "node": used.task.node, "cells": cells, "lasted": lasted}


def _why_not(missing: Sequence[PlotKind]) -> list[tuple[str, str]]:
    """(what, why) of the plots that are not there; those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for kind in missing:
        if kind.why_not:
            reasons.setdefault(kind.why_not, []).append(kind.title)
    return [(", ".join(titles), why) for why, titles in reasons.items()]


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    """The values to five digits: more are not seen, and each takes room."""
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
    """The number of this name, 0 where there is none."""
    return words.whole(params.get(name), 11) or 0


def span_in(params: Mapping[str, str], begin: int, end: int) -> tuple[int, int]:
    """The times ``from`` and ``to``, these where a query has none. Raises BadRequest."""
    begin, end = number_in(params, "from") or begin, number_in(params, "to") or end
    if end <= begin:
        raise BadRequest("The end is not after the beginning.")
    return begin, end
