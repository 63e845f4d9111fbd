"""What tasks use: each in words and as a small line, for tables of tasks, and all of an attempt together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.config.spec import JobSpec
from jobs.metrics import read, spark
from jobs.metrics.rates import FRESH
from jobs.metrics.read import Figure, TaskFigures
from jobs.models import Attempt, Task
from portal.core import words

LINES = 50  # tasks of a table that have a line: each reads a part of a file
SPAN = 3600  # seconds of a line
MOST = 200  # tasks; of an attempt with more nothing is said, since a small file is read for each


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


@dataclass(frozen=True, slots=True)
class Together:
    """``is_now``: the figures are of this moment, for all tasks that run; else they are of the whole time. ``gpu``: how
    busy the GPUs are on average, in percent; ``cpu``: busy cores; ``memory``: the bytes in use now, or the peak of the
    task that came nearest to its ``memory_of``. None is what nobody measured."""

    is_now: bool
    gpu: float | None = None
    cpu: float | None = None
    memory: float | None = None
    memory_of: float | None = None
    task: str = ""


def uses(attempt: Attempt, tasks: Sequence[Task], spec: JobSpec) -> dict[int, TaskUse]:
    """By the task's id, of those that were measured. No query."""
    now = time.time()
    found = [one for one in read.figures(attempt, tasks, spec) if one.at]
    lined = {one.task.pk for one in found[:LINES]}
    return {one.task.pk: _use(attempt, one, now, with_line=one.task.pk in lined) for one in found}


def together(attempt: Attempt, spec: JobSpec, *, is_live: bool) -> Together | None:
    """None when no task was measured, or, of an attempt that is live, none is measured now. No query."""
    if spec.total_tasks > MOST:
        return None
    asked = {role.name: read.asked_of(spec, role.name) for role in spec.task_roles}
    names = [(role.name, index) for role in spec.task_roles for index in range(role.task_number)]
    found = {name: read.figures_of(attempt, *name, asked[name[0]]) for name in names}
    oldest = time.time() - FRESH if is_live else 1.0
    known = {name: figures for name, (_, at, figures) in found.items() if at >= oldest}
    if not known:
        return None
    return _now(list(known.values())) if is_live else _over_all(known)


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


def _now(tasks: list[dict[str, Figure]]) -> Together:
    gpus = _known(one.last for figures in tasks for name, one in figures.items() if _is_util(name))
    cores = _known(figures["cpu"].last for figures in tasks if "cpu" in figures)
    memory = _known(figures["memory"].last for figures in tasks if "memory" in figures)
    asked = sum(figures["memory"].asked or 0.0 for figures in tasks if "memory" in figures)
    return Together(True, _mean(gpus), sum(cores) if cores else None, sum(memory) if memory else None, asked)


def _over_all(tasks: dict[tuple[str, int], dict[str, Figure]]) -> Together:
    gpus = _known(one.mean for figures in tasks.values() for name, one in figures.items() if _is_util(name))
    cores = _known(figures["cpu"].mean for figures in tasks.values() if "cpu" in figures)
    peaks = [
        (one.peak / one.asked, one.peak, one.asked, f"{role}-{index}")
        for (role, index), figures in tasks.items()
        if (one := figures.get("memory")) and one.peak is not None and one.asked
    ]
    _, peak, asked, task = max(peaks, default=(0.0, None, None, ""))
    return Together(False, _mean(gpus), sum(cores) if cores else None, peak, asked, task)


def _is_util(name: str) -> bool:
    return name.startswith("gpu") and name.endswith("Util")


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
