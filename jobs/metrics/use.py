"""What tasks use, in words and as a small line, for tables of tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.config.spec import JobSpec
from jobs.metrics import read, spark
from jobs.metrics.rates import FRESH
from jobs.metrics.read import Figure, TaskFigures
from jobs.models import Attempt, Task
from portal.core import words

LINES = 50  # tasks of a table that have a line: each reads a part of a file
SPAN = 3600  # seconds of a line


@dataclass(frozen=True, slots=True)
class TaskUse:
    """``busy``: how busy its GPUs are, or its cores, and ``memory``, each with what it is of; at the moment while the
    task runs, else on average and at most. ``line``: the ``d`` of the last hour, "" without one."""

    busy: str
    busy_of: str
    memory: str
    memory_of: str
    line: str = ""
    says: str = ""
    idle: str = ""  # "GPU 4 has been idle for 2 h 10 min"


def uses(attempt: Attempt, tasks: Sequence[Task], spec: JobSpec) -> dict[int, TaskUse]:
    """By the task's id, of those that were measured. No query."""
    now = time.time()
    found = [one for one in read.figures(attempt, tasks, spec) if one.at]
    lined = {one.task.pk for one in found[:LINES]}
    return {one.task.pk: _use(attempt, one, now, with_line=one.task.pk in lined) for one in found}


def _use(attempt: Attempt, one: TaskFigures, now: float, *, with_line: bool) -> TaskUse:
    is_now = now - one.at <= FRESH
    cpu, memory = one.figures.get("cpu"), one.figures.get("memory")
    utils = [figure for id in one.task.gpu_ids if (figure := one.figures.get(f"gpu{id}Util"))]
    busy = _gpus(utils, is_now=is_now) if utils else _cores(cpu, is_now=is_now)
    line = _line(attempt, one, cpu) if with_line else ("", "")
    return TaskUse(*busy, *_memory(memory, is_now=is_now), *line, _idle(one, now) if is_now else "")


def _idle(one: TaskFigures, now: float) -> str:
    """Those GPUs that are idle, for as long as the last of them is."""
    since = {str(id): figure.idle_since for id in one.task.gpu_ids if (figure := one.figures.get(f"gpu{id}Util"))}
    idle = {id: at for id, at in since.items() if at}
    if not idle:
        return ""
    named = f"GPU{'s' if len(idle) > 1 else ''} {words.ranges(idle)}"
    return f"{named} idle for {words.duration(now - max(idle.values()))}"


def _gpus(utils: Sequence[Figure], *, is_now: bool) -> tuple[str, str]:
    known = [value for one in utils if (value := one.last if is_now else one.mean) is not None]
    return (f"{sum(known) / len(known):.0f} %", "GPU" if is_now else "GPU, mean") if known else (words.NOTHING, "")


def _cores(cpu: Figure | None, *, is_now: bool) -> tuple[str, str]:
    value = (cpu.last if is_now else cpu.mean) if cpu else None
    if cpu is None or value is None:
        return words.NOTHING, ""
    return f"{value:.{1 if value >= 1 else 2}f}", f"of {cpu.asked:g} CPU" if is_now else f"of {cpu.asked:g} CPU, mean"


def _memory(memory: Figure | None, *, is_now: bool) -> tuple[str, str]:
    value = (memory.last if is_now else memory.peak) if memory else None
    if memory is None or value is None:
        return words.NOTHING, ""
    asked = words.size(int(memory.asked or 0))
    return words.size(int(value)), f"of {asked}" if is_now else f"of {asked}, peak"


def _line(attempt: Attempt, one: TaskFigures, cpu: Figure | None) -> tuple[str, str]:
    end = one.at + 60
    begin = max(one.began, end - SPAN)
    series = read.series(attempt, one.task, begin, end, 60 if end - begin > 900 else 0)
    columns = [f"gpu{id}Util" for id in one.task.gpu_ids if f"gpu{id}Util" in series.points]
    sums: dict[int, float] = {}
    for name in columns or ["cpu"]:
        for at, value, _ in series.points.get(name, ()):
            sums[at] = sums.get(at, 0.0) + value / max(1, len(columns))
    top = 100.0 if columns else max([*sums.values(), (cpu.asked or 0.0) if cpu else 0.0], default=0.0)
    return spark.path(sums, begin, end, series.step, top), "GPU" if columns else "CPU"
