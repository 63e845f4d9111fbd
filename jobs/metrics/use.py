"""What tasks use: each in words and as a small line, for tables of tasks, and all of an attempt together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from base.core import words
from jobs.config.spec import JobSpec
from jobs.metrics import read
from jobs.metrics.rates import is_fresh
from jobs.metrics.read import Figure, TaskFigures
from jobs.models import Attempt, Task

LINES = 50  # tasks of a table that have a line: each reads a part of a file
SPAN = 3600  # seconds of a line
WIDE, HIGH = 60, 16
_GAP = 3  # steps without a value after which a line is broken
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
class AttemptUse:
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
    """What the tasks that were measured use, by id. It takes no query."""
    now = time.time()
    measured = [used for used in read.figures(attempt, tasks, spec) if used.at]
    lined = {used.task.pk for used in measured[:LINES]}
    return {used.task.pk: _use(attempt, used, now, with_line=used.task.pk in lined) for used in measured}


def together(attempt: Attempt, spec: JobSpec, *, is_live: bool) -> AttemptUse | None:
    """None when no task was measured, or, of an attempt that is live, none is measured now. No query."""
    if spec.total_tasks > MOST:
        return None
    asked = {role.name: read.asked_of(spec, role.name) for role in spec.task_roles}
    names = [(role.name, index) for role in spec.task_roles for index in range(role.task_number)]
    used = ((name, *read.figures_of(attempt, *name, asked[name[0]])) for name in names)
    now = time.time()
    known = {name: figures for name, _, at, figures in used if at and (not is_live or is_fresh(at, now))}
    end = attempt.exit or {}
    for name, measured in known.items() if (end.get("exit") or {}).get("oom") else ():
        if name == (end.get("role"), end.get("index")) and "memory" in measured:
            measured["memory"] = _at_most(measured["memory"])
    if not known:
        return None
    return _now(list(known.values())) if is_live else _over_all(known)


def _use(attempt: Attempt, used: TaskFigures, now: float, *, with_line: bool) -> TaskUse:
    is_now = is_fresh(used.at, now)
    cpu, memory = used.figures.get("cpu"), used.figures.get("memory")
    utils = [figure for id in used.task.gpu_ids if (figure := used.figures.get(f"gpu{id}Util"))]
    busy = _gpus(utils, is_now=is_now) if utils else _cores(cpu, is_now=is_now)
    line = _line(attempt, used, cpu) if with_line else ("", "")
    memory = _at_most(memory) if memory and (used.task.exit or {}).get("oom") else memory
    return TaskUse(*busy, *_memory(memory, is_now=is_now), *line, _idle(used, now) if is_now else "")


def _at_most(memory: Figure) -> Figure:
    """The memory of a task that was killed for it: it had all of it, whatever was seen between two samples."""
    return replace(memory, peak=memory.asked if memory.asked else memory.peak)


def _idle(used: TaskFigures, now: float) -> str:
    """Those GPUs that are idle, for as long as the last of them is."""
    since = {str(id): figure.idle_since for id in used.task.gpu_ids if (figure := used.figures.get(f"gpu{id}Util"))}
    idle = {id: at for id, at in since.items() if at}
    if not idle:
        return ""
    named = f"GPU{'s' if len(idle) > 1 else ''} {words.ranges(idle)}"
    return f"{named} idle for {words.duration(now - max(idle.values()))}"


def _gpus(utils: Sequence[Figure], *, is_now: bool) -> tuple[str, str]:
    known = [value for util in utils if (value := util.last if is_now else util.mean) is not None]
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


def _line(attempt: Attempt, used: TaskFigures, cpu: Figure | None) -> tuple[str, str]:
    end = used.at + 60
    begin = max(used.began, end - SPAN)
    series = read.series(attempt, used.task, begin, end, 60 if end - begin > 900 else 0)
    columns = [f"gpu{id}Util" for id in used.task.gpu_ids if f"gpu{id}Util" in series.points]
    sums: dict[int, float] = {}
    for name in columns or ["cpu"]:
        for at, value, _ in series.points.get(name, ()):
            sums[at] = sums.get(at, 0.0) + value / max(1, len(columns))
    top = 100.0 if columns else max([*sums.values(), (cpu.asked or 0.0) if cpu else 0.0], default=0.0)
    return spark(sums, begin, end, series.step, top), "GPU" if columns else "CPU"


def spark(points: Mapping[int, float], begin: int, end: int, step: int, top: float) -> str:
    """The ``d`` of a small line in a box of WIDE by HIGH: of the points (time: value) from ``begin`` to ``end``.
    ``top`` is the value at the upper edge."""
    parts, last = [], None
    for at in sorted(points):
        if not begin <= at < end:
            continue
        x = WIDE * (at - begin) / max(1, end - begin)
        y = HIGH - 0.5 - (HIGH - 1) * min(1.0, points[at] / top if top else 0.0)
        joined = last is not None and at - last <= _GAP * step
        parts.append(f"{'L' if joined else 'M'}{x:.3g} {y:.3g}{'' if joined else 'h.5'}")
        last = at
    return " ".join(parts)


def _now(tasks: list[dict[str, Figure]]) -> AttemptUse:
    gpus = _known(figure.last for figures in tasks for name, figure in figures.items() if read.is_util(name))
    cores = _known(figures["cpu"].last for figures in tasks if "cpu" in figures)
    memory = _known(figures["memory"].last for figures in tasks if "memory" in figures)
    asked = sum(figures["memory"].asked or 0.0 for figures in tasks if "memory" in figures)
    return AttemptUse(True, _mean(gpus), sum(cores) if cores else None, sum(memory) if memory else None, asked)


def _over_all(tasks: dict[tuple[str, int], dict[str, Figure]]) -> AttemptUse:
    gpus = _known(figure.mean for figures in tasks.values() for name, figure in figures.items() if read.is_util(name))
    cores = _known(figures["cpu"].mean for figures in tasks.values() if "cpu" in figures)
    peaks = [
        (figure.peak / figure.asked, figure.peak, figure.asked, f"{role}-{index}")
        for (role, index), figures in tasks.items()
        if (figure := figures.get("memory")) and figure.peak is not None and figure.asked
    ]
    _, peak, asked, task = max(peaks, default=(0.0, None, None, ""))
    return AttemptUse(False, _mean(gpus), sum(cores) if cores else None, peak, asked, task)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
