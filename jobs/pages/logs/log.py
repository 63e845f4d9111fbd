"""Shows the log page: the logs that an address names, their lines, and links to the others.

An address names one task (``task``, ``attempt``, ``stream``), or all tasks of an attempt or of all attempts
(``tasks=all``, with ``attempt``, ``role`` and ``stream`` to choose among them). Its logs are numbered in the order of
attempts, tasks and streams; ``hide`` leaves some of these numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote, urlencode

from django.utils import timezone

from clusters.engines.runtime import Stream
from clusters.models import VirtualCluster
from jobs.logs import retention
from jobs.logs.places import STREAMS
from jobs.logs.read import find_task
from jobs.logs.together import sources as log_sources
from jobs.logs.together.expression import Expression
from jobs.logs.together.sources import Opened, Row, Source, Together, open_together
from jobs.models import Attempt, Job, Task
from jobs.pages.logs import beside
from jobs.planning.lifecycle import TaskState
from portal.core.errors import BadRequest, NoLog

SHOWN_LINES = 200  # a script asks for as many; each costs the first screen a tenth of a millisecond
Output = Literal["both", "stdout", "stderr"]
OUTPUTS: tuple[Output, ...] = ("both", "stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Asked:
    """What an address of the log page says. ``attempt``: 0 where it says none."""

    task: str = ""
    tasks: str = ""
    role: str = ""
    attempt: int = 0
    stream: str = ""
    hide: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Choice:
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

    rows: Sequence[Row]
    first: int
    together: Together
    note: str
    live: bool

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def next(self) -> str:
        """The line of each log with which its stream begins. A line that is still being written is sent again."""
        return "-".join(f"{log.source.number}:{_next_line(log)}" for log in self.together.logs)


def choose(job: Job, asked: Asked) -> Choice:
    """The logs of what is asked for. Without a task and ``tasks``: of the attempt's first failed task, else of its
    first. Raises BadRequest, NoLog."""
    output = asked.stream or ("both" if asked.tasks else "stdout")
    if output not in OUTPUTS:
        raise BadRequest(f"There is no stream {output}: it is stdout, stderr or both.")
    if asked.tasks:
        return _all_tasks(job, asked, output)
    if asked.task:
        role, _, index = asked.task.rpartition("-")
        if not (index.isascii() and index.isdecimal() and len(index) < 10):
            raise NoLog(f"Job {job.name} has no task {asked.task}.")
        task = find_task(job, role, int(index), asked.attempt or None)
    else:
        task = _first_task(job, asked.attempt or job.attempt_number)
    return Choice(job, task, task.attempt.number, "", output, _numbered([task], output), asked.hide)


def shown(choice: Choice, first: int | None, count: int = SHOWN_LINES, expression: Expression | None = None) -> Shown:
    """``count`` lines from place ``first`` on (from 1); without ``first`` the last ones. A log that cannot be read
    gives a note instead."""
    together = open_together(choice.shown)
    rank = max(0, together.total - count) if first is None else max(1, first) - 1
    rows = together.rows(rank, count, expression)
    notes = list(dict.fromkeys(log.note for log in together.logs if log.note))
    is_live = any(not log.ended and TaskState(log.source.task.state) in _MAY_WRITE for log in together.logs)
    return Shown(rows, rank + 1, together, " ".join(notes[:3]), is_live)


def context(choice: Choice, page: Shown) -> dict[str, Any]:
    """The context of templates/jobs/log.html. The page opens a stream when ``page.live`` is set."""
    job, task = choice.job, choice.task
    stream = choice.page.replace("/jobs/", "/stream/logs/", 1).removesuffix("/logs")
    attempts = _attempts(job)
    return {
        "job": job,
        "task": task,
        "attempt": choice.attempt,
        "output": choice.output,
        "log": page,
        "size": page.together.size,
        "total": page.together.total,
        "lines": [_line(choice, row) for row in page.rows],
        "outputs": [(name, choice.url(stream=name)) for name in OUTPUTS],
        "roles": _roles(choice) if task else [],
        "groups": [] if task else beside.groups(choice, page),
        "attempts": [(one, f"{choice.page}?{urlencode({'attempt': one.number})}") for one in attempts],
        "all_attempts": [("all", Choice(job, None, 0, "", "both", ()).url()), *_all_urls(job, attempts)],
        "all_url": f"{choice.page}?tasks=all",
        "one_url": choice.page,
        "older_url": choice.url(**{"from": max(1, page.first - SHOWN_LINES)}) if page.first > 1 else "",
        "newer_url": choice.url(**{"from": page.last + 1}) if page.rows and page.last < page.together.total else "",
        "top_url": choice.url(**{"from": 1}),
        "end_url": choice.url(),
        "downloads": _downloads(choice),
        "download_url": choice.url(f"{choice.page}/download"),
        "stream_url": choice.url(stream),
        "search_url": choice.url(f"{stream}/search"),
        "rows_url": choice.url(f"{choice.page}/rows"),
        "zone": timezone.get_current_timezone_name(),
        "sources": [_as_json(choice, source) for source in choice.sources],
        "alone": task is not None,
        "stay": _how_long(choice),
        "since": _local(min((log.times.key(0) for log in page.together.logs if log.times.count), default=0)),
        "until": _local(
            max((log.times.key(log.times.count - 1) for log in page.together.logs if log.times.count), default=0)
        ),
        "cut": choice.cut,
        "hidden": sorted(choice.hide),
        "attempt_words": beside.attempts(choice.sources),
        "counts": {log.source.number: log.times.count for log in page.together.logs},
    }


_MAY_WRITE = (TaskState.WAITING, TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)


def _next_line(log: Opened) -> int:
    lines = log.view.lines(log.times.count, 1) if log.times.count else []
    return log.times.count if lines and lines[0].partial else log.times.count + 1


def _all_tasks(job: Job, asked: Asked, output: Output) -> Choice:
    if asked.tasks != "all":
        raise BadRequest("tasks is all.")
    rows = Task.objects.select_related("attempt", "job").filter(job=job)
    if asked.attempt:
        rows = rows.filter(attempt__number=asked.attempt)
    if asked.role:
        rows = rows.filter(role=asked.role)
    most = log_sources.MOST // len(_streams(output))
    newest = list(rows.order_by("-attempt__number", "id")[: most + 1])
    if not newest:
        raise NoLog(f"Job {job.name} has no such task.")
    tasks = sorted(newest[:most], key=lambda task: (task.attempt.number, task.pk))
    sources = _numbered(tasks, output)
    return Choice(job, None, asked.attempt, asked.role, output, sources, asked.hide, len(newest) > most)


def _numbered(tasks: Sequence[Task], output: Output) -> list[Source]:
    pairs = [(task, stream) for task in tasks for stream in _streams(output)]
    return [Source(number, task, stream) for number, (task, stream) in enumerate(pairs)]


def _streams(output: Output) -> Sequence[Stream]:
    return STREAMS if output == "both" else (output,)


def _line(choice: Choice, row: Row) -> dict[str, Any]:
    source = choice.sources[row.source]
    alone = len(choice.sources) == 1
    local = timezone.localtime(datetime.fromtimestamp(row.at // 10**9, UTC))
    return {
        "line": row.line,
        "id": f"L{row.line.number}" if alone else f"{source.name}{row.line.number}",
        "label": "" if choice.task else source.task.label,
        "colour": 0 if choice.task else beside.colour(choice.sources, source),
        "time": f"{local:%H:%M:%S}.{row.at // 10**6 % 1000:03d}" if row.at else "",
        "moment": local,
    }


def _as_json(choice: Choice, source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "label": source.task.label,
        "attempt": source.task.attempt.number,
        "stream": source.stream,
        "colour": beside.colour(choice.sources, source),
    }


def _how_long(choice: Choice) -> str:
    """Until when the logs stay; empty where that is for ever."""
    rule = retention.rule_of(VirtualCluster.objects.filter(name=choice.job.vc).first())
    if not rule:
        return ""
    going = Attempt.objects.filter(job=choice.job, log_gone_at=None, log_goes_at__isnull=False)
    if choice.attempt:
        going = going.filter(number=choice.attempt)
    says = f"Virtual cluster {choice.job.vc} {rule}."
    if (first := going.order_by("log_goes_at").first()) and (day := first.log_goes_at):
        says += f" The logs of attempt {first.number} will be deleted on {day.day} {day:%b %Y}."
    return says


def _local(at: int) -> str:
    """A stamp as a field for a local time wants it."""
    return f"{timezone.localtime(datetime.fromtimestamp(at // 10**9, UTC)):%Y-%m-%dT%H:%M:%S}" if at else ""


def _downloads(choice: Choice) -> list[tuple[str, str]]:
    if not choice.task:
        return [("All as zip", choice.url(f"{choice.page}/download", form="zip"))]
    job, task = choice.job, choice.task
    raw = f"/api/v1/user/{quote(job.username)}/jobs/{quote(job.name)}/taskRoles/{quote(task.role)}/{task.index}/logs/"
    return [(name, f"{raw}{name}?{urlencode({'attempt': choice.attempt, 'download': 1})}") for name in STREAMS]


def _first_task(job: Job, number: int) -> Task:
    tasks = Task.objects.select_related("attempt", "job").filter(attempt__job=job, attempt__number=number)
    task = tasks.filter(state=TaskState.FAILED).order_by("finished_at", "id").first() or tasks.order_by("id").first()
    if task is None:
        raise NoLog(f"Job {job.name} has no attempt {number}.")
    return task


def _roles(choice: Choice) -> list[tuple[str, list[dict[str, Any]]]]:
    """[(role, [{"label", "state", "url", "current"}])] of the attempt, in one query."""
    assert choice.task is not None
    roles: dict[str, list[dict[str, Any]]] = {}
    rows = Task.objects.filter(attempt=choice.task.attempt).order_by("id").values_list("id", "role", "index", "state")
    for key, role, index, state in rows:
        label = f"{role}-{index}"
        url = choice.url(task=label)
        roles.setdefault(role, []).append(
            {"label": label, "state": state, "url": url, "current": key == choice.task.pk}
        )
    return list(roles.items())


def _attempts(job: Job) -> list[Attempt]:
    return list(Attempt.objects.filter(job=job).order_by("-number")[:100])


def _all_urls(job: Job, attempts: Sequence[Attempt]) -> list[tuple[str, str]]:
    return [(str(one.number), Choice(job, None, one.number, "", "both", ()).url()) for one in attempts]
