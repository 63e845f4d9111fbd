"""Shows the log page: the task, attempt and stream that the address names, their lines, and links to the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from clusters.engines.runtime import Stream
from jobs.logs import read as logs
from jobs.logs.places import STREAMS
from jobs.logs.text import Line
from jobs.models import Attempt, Job, Task
from jobs.planning.lifecycle import TaskState
from portal.core.errors import BadRequest, NodeUnreachable, NoLog

SHOWN_LINES = 500


@dataclass(frozen=True, slots=True)
class Choice:
    """The log that an address of the log page names."""

    job: Job
    task: Task
    stream: Stream

    @property
    def page(self) -> str:
        return f"/jobs/{quote(self.job.username)}/{quote(self.job.name)}/logs"

    def url(self, path: str = "", /, **more: object) -> str:
        names = {"task": self.task.label, "attempt": self.task.attempt.number, "stream": self.stream, **more}
        return f"{path or self.page}?{urlencode(names)}"


@dataclass(slots=True)
class Shown:
    """The lines on the page. ``note``: why lines are missing; ``live``: more may come."""

    lines: list[Line] = field(default_factory=list)
    total: int = 0
    size: int = 0
    note: str = ""
    live: bool = True

    @property
    def first(self) -> int:
        return self.lines[0].number if self.lines else 1

    @property
    def last(self) -> int:
        return self.lines[-1].number if self.lines else 0

    @property
    def next(self) -> int:
        """The line with which the stream begins. A line that is still being written is sent again."""
        return self.last if self.lines and self.lines[-1].partial else self.last + 1


def choose(job: Job, task: str, attempt: int, stream: str) -> Choice:
    """The log of that task, attempt and stream. Without ``task``: of the attempt's first failed task, else of its
    first. Raises BadRequest, NoLog."""
    if stream not in STREAMS:
        raise BadRequest(f"There is no stream {stream}: it is stdout or stderr.")
    if not task:
        return Choice(job, _first_task(job, attempt or job.attempt_number), stream)
    role, _, index = task.rpartition("-")
    if not (index.isascii() and index.isdecimal() and len(index) < 10):
        raise NoLog(f"Job {job.name} has no task {task}.")
    return Choice(job, logs.find_task(job, role, int(index), attempt or None), stream)


def shown(choice: Choice, first: int | None, count: int = SHOWN_LINES) -> Shown:
    """``count`` lines from line ``first`` on; without ``first`` the last ones. A log that cannot be read gives a note
    instead."""
    try:
        log = logs.open_log(choice.task, choice.stream, stale=True)
    except NoLog as none:
        return Shown(note=none.message, live=TaskState(choice.task.state) in _MAY_START)
    except NodeUnreachable as silent:
        return Shown(note=silent.message)
    lines = logs.last_lines(log, count) if first is None else log.view.lines(first, count)
    return Shown(lines, log.view.line_count(), log.view.size, log.note, not log.ended)


def context(choice: Choice, page: Shown) -> dict[str, Any]:
    """The context of templates/jobs/log.html. The page opens a stream when ``page.live`` is set."""
    job, task = choice.job, choice.task
    raw = f"/api/v1/user/{quote(job.username)}/jobs/{quote(job.name)}/taskRoles/{quote(task.role)}/{task.index}/logs/"
    older = max(1, page.first - SHOWN_LINES)
    attempt = {"attempt": task.attempt.number}
    return {
        "job": job,
        "task": task,
        "attempt": task.attempt,
        "output": choice.stream,
        "log": page,
        "outputs": [(name, Choice(job, task, name).url()) for name in STREAMS],
        "roles": _roles(choice),
        "attempts": [(one, f"{choice.page}?{urlencode({'attempt': one.number})}") for one in _attempts(job)],
        "older_url": choice.url(**{"from": older}) if page.first > 1 else "",
        "newer_url": choice.url(**{"from": page.last + 1}) if page.lines and page.last < page.total else "",
        "top_url": choice.url(**{"from": 1}),
        "end_url": choice.url(),
        "downloads": [(name, f"{raw}{name}?{urlencode({**attempt, 'download': 1})}") for name in STREAMS],
        "stream_url": choice.url(choice.page.replace("/jobs/", "/stream/logs/", 1).removesuffix("/logs")),
        "lines_url": choice.url(f"{choice.page}/lines"),
        "search_url": choice.url(f"{choice.page}/search"),
    }


_MAY_START = (TaskState.WAITING, TaskState.STARTING, TaskState.RUNNING)


def _first_task(job: Job, number: int) -> Task:
    tasks = Task.objects.select_related("attempt", "job").filter(attempt__job=job, attempt__number=number)
    task = tasks.filter(state=TaskState.FAILED).order_by("finished_at", "id").first() or tasks.order_by("id").first()
    if task is None:
        raise NoLog(f"Job {job.name} has no attempt {number}.")
    return task


def _roles(choice: Choice) -> list[tuple[str, list[dict[str, Any]]]]:
    """[(role, [{"label", "state", "url", "current"}])] of the attempt, in one query."""
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
