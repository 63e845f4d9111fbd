"""Which logs an address of the log page names, and their lines.

An address names one task (``task``, ``attempt``, ``stream``), or all tasks of an attempt or of all attempts
(``tasks=all``, with ``attempt``, ``role`` and ``stream`` to choose among them). Its logs are numbered in the order of
attempts, tasks and streams; ``hide`` leaves some of these numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urlencode

from base.core.errors import BadRequest, NoLog
from base.core.words import whole
from clusters.engines.runtime import Stream
from jobs.logs.places import STREAMS
from jobs.logs.read import find_task
from jobs.logs.together.expression import Expression
from jobs.logs.together.sources import MOST, LogRow, MergedLogs, Opened, Source, open_together
from jobs.models import Job, Task
from jobs.planning.lifecycle import TaskState

SHOWN_LINES = 200  # a script asks for as many; each costs the first screen a tenth of a millisecond
Output = Literal["both", "stdout", "stderr"]
OUTPUTS: tuple[Output, ...] = ("both", "stdout", "stderr")
_MAY_WRITE = (TaskState.WAITING, TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)


@dataclass(frozen=True, slots=True)
class LogChoice:
    """The logs that an address names. ``task``: the only one, None where the logs of many are shown together. ``cut``:
    that there are more logs than one page shows."""

    job: Job
    task: Task | None
    attempt: int
    role: str
    output: Output
    sources: Sequence[Source]
    hide: frozenset[int] = frozenset()
    cut: bool = False

    @property
    def page(self) -> str:
        return f"/jobs/{quote(self.job.username)}/{quote(self.job.name)}/logs"

    @property
    def shown(self) -> list[Source]:
        return [source for source in self.sources if source.number not in self.hide]

    def url(self, path: str = "", /, **more: object) -> str:
        if self.task:
            names: dict[str, object] = {"task": self.task.label, "attempt": self.attempt, "stream": self.output}
        else:
            names = {"tasks": "all", "attempt": self.attempt, "role": self.role, "stream": self.output}
        return f"{path or self.page}?{urlencode({name: value for name, value in {**names, **more}.items() if value})}"

    @property
    def newest(self) -> int:
        """The newest attempt of which logs are shown."""
        return max(source.task.attempt.number for source in self.sources)

    def waiting(self) -> list[int]:
        """The ids of the tasks that have no log yet."""
        return sorted({source.task.pk for source in self.sources if source.task.state == TaskState.WAITING})


@dataclass(frozen=True, slots=True)
class Shown:
    """The lines on the page. ``first`` is the place of the first one among all, from 1. ``note``: why lines are
    missing; ``live``: more may come."""

    rows: Sequence[LogRow]
    first: int
    together: MergedLogs
    note: str
    live: bool

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def next(self) -> str:
        """The line of each log with which its stream begins. A line that is still being written is sent again."""
        return "-".join(f"{log.source.number}:{_next_line(log)}" for log in self.together.logs)


def choose_one(
    job: Job, name: str = "", *, attempt: int = 0, stream: str = "", hide: frozenset[int] = frozenset()
) -> LogChoice:
    """The logs of the task of that name (worker-0); without one of the attempt's first failed task, else of its first.
    ``attempt`` is the newest without one. Raises BadRequest, NoLog."""
    output = _output(stream or "stdout")
    if name:
        role, _, index = name.rpartition("-")
        if (at := whole(index, 9)) is None:
            raise NoLog(f"Job {job.name} has no task {name}.")
        task = find_task(job, role, at, attempt or None)
    else:
        task = _first_task(job, attempt or job.attempt_number)
    return LogChoice(job, task, task.attempt.number, "", output, _numbered([task], output), hide)


def choose_all(
    job: Job, *, attempt: int = 0, role: str = "", stream: str = "", hide: frozenset[int] = frozenset()
) -> LogChoice:
    """The logs of all tasks, or of those of an attempt or a role. Raises BadRequest, NoLog."""
    output = _output(stream or "both")
    rows = Task.objects.select_related("attempt", "job").filter(job=job)
    if attempt:
        rows = rows.filter(attempt__number=attempt)
    if role:
        rows = rows.filter(role=role)
    most = MOST // len(_streams(output))
    newest = list(rows.order_by("-attempt__number", "id")[: most + 1])
    if not newest:
        raise NoLog(f"Job {job.name} has no such task.")
    tasks = sorted(newest[:most], key=lambda task: (task.attempt.number, task.pk))
    return LogChoice(job, None, attempt, role, output, _numbered(tasks, output), hide, len(newest) > most)


def lines_of(
    choice: LogChoice, first: int | None, count: int = SHOWN_LINES, expression: Expression | None = None
) -> Shown:
    """``count`` lines from place ``first`` on (from 1); without ``first`` the last ones. A log that cannot be read
    gives a note instead."""
    together = open_together(choice.shown)
    rank = max(0, together.total - count) if first is None else max(1, first) - 1
    rows = together.rows(rank, count, expression)
    notes = list(dict.fromkeys(log.note for log in together.logs if log.note))
    is_live = any(not log.ended and TaskState(log.source.task.state) in _MAY_WRITE for log in together.logs)
    return Shown(rows, rank + 1, together, " ".join(notes[:3]), is_live)


def _next_line(log: Opened) -> int:
    lines = log.view.lines(log.times.count, 1) if log.times.count else []
    return log.times.count if lines and lines[0].partial else log.times.count + 1


def _output(stream: str) -> Output:
    if stream not in OUTPUTS:
        raise BadRequest(f"There is no stream {stream}: it is stdout, stderr or both.")
    return stream


def _numbered(tasks: Sequence[Task], output: Output) -> list[Source]:
    pairs = [(task, stream) for task in tasks for stream in _streams(output)]
    return [Source(number, task, stream) for number, (task, stream) in enumerate(pairs)]


def _streams(output: Output) -> Sequence[Stream]:
    return STREAMS if output == "both" else (output,)


def _first_task(job: Job, number: int) -> Task:
    tasks = Task.objects.select_related("attempt", "job").filter(attempt__job=job, attempt__number=number)
    task = tasks.filter(state=TaskState.FAILED).order_by("finished_at", "id").first() or tasks.order_by("id").first()
    if task is None:
        raise NoLog(f"Job {job.name} has no attempt {number}.")
    return task
