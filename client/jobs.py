"""One job of the portal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Callable, cast

from .account import address
from .errors import NotMeant, NotThere
from .following import follow_lines
from .transport import Transport, quoted
from .words import ENDS, JobLine, JobStanding, LogText


class RemoteJob:
    """``line`` is what the list of jobs said of it, empty for one that was not listed."""

    def __init__(self, transport: Transport, username: str, name: str, line: JobLine | None = None) -> None:
        self.transport, self.username, self.name = transport, username, name
        self.line: JobLine = line or {}

    def __repr__(self) -> str:
        return f"<job {self.full_name}>"

    @property
    def full_name(self) -> str:
        return f"{self.username}~{self.name}"

    @property
    def url(self) -> str:
        """The address of its page."""
        return f"{self.transport.account.url}/jobs/{quoted(self.username, self.name)}"

    def ask(self, method: str = "GET", *below: object, body: Any = None, **params: Any) -> Any:
        return self.transport.json(method, self.path(*below), body, **params)

    def path(self, *below: object) -> str:
        return f"/api/v1/user/{quoted(self.username, 'jobs', self.name, *below)}"

    def detail(self) -> dict[str, Any]:
        """The answer of ``GET .../jobs/:job``: ``jobStatus`` and ``taskRoles``."""
        return cast("dict[str, Any]", self.ask())

    def status(self) -> JobStanding:
        return cast(JobStanding, self.detail()["jobStatus"])

    @property
    def state(self) -> str:
        return str(self.status()["state"])

    def require_task(self, task: str) -> None:
        """Raises NotThere for one that it has not; an empty text is any of them."""
        if not task:
            return
        roles = self.detail()["taskRoles"].items()
        tasks = [f"{role}-{each['taskIndex']}" for role, told in roles for each in told["taskStatuses"]]
        if task not in tasks:
            raise NotThere(f"{self.full_name} has no task {task}. It has {', '.join(tasks[:9]) or 'none yet'}.")

    def config(self) -> dict[str, Any]:
        """The config as it was submitted."""
        return cast("dict[str, Any]", self.ask("GET", "config"))

    def why(self) -> dict[str, Any]:
        """Why it waits: each blocker, who holds what, and the smallest changes with which it starts. Raises NotThere
        for a job that does not wait."""
        return cast("dict[str, Any]", self.ask("GET", "why"))

    def stop(self, *, now: bool = False) -> None:
        """``now``: without the seconds that its tasks have to end."""
        self.ask("PUT", "executionType", body={"value": "STOP", **({"now": True} if now else {})})

    def wait(
        self, timeout: float | None = None, every: float = 2.0, tell: Callable[[str], None] | None = None
    ) -> JobStanding:
        """Its status once it has ended. A portal that is away is waited for, of which ``tell`` gets a sentence. Raises
        TimeoutError after ``timeout`` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        told = tell and (lambda why: tell(f"{why} The job goes on; this waits." if why else "The portal is back."))
        while (found := self.transport.patiently(self.status, told))["state"] not in ENDS:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{self.full_name} is {found['state']} after {timeout} s.")
            time.sleep(every)
        return cast(JobStanding, found)

    def diagnosed(self, seconds: float = 5.0) -> JobStanding:
        """Its status, once it says why it failed, which takes a moment behind its end."""
        until = time.monotonic() + seconds
        while "diagnosis" not in (found := self.status()) and time.monotonic() < until:
            time.sleep(0.2)
        return found

    def logs(self, *, follow: bool = False, grep: str = "", task: str = "") -> Iterator[LogText]:
        """Its lines: of all tasks and attempts by time, with ``grep`` those that match (RE2). ``follow``: as they are
        written, until the job has ended; ``grep`` is an expression of Python's then. ``task``: of one alone."""
        self.require_task(task)
        if follow:
            return follow_lines(self.transport, self.path(), grep=grep, task=task)
        return self._lines(grep, task)

    def _lines(self, grep: str, task: str) -> Iterator[LogText]:
        after: int | None = 0
        role = task.rpartition("-")[0]
        while after is not None:
            told = self.ask("GET", "logs", grep=grep, role=role, after=after, limit=2000)
            for line in told["lines"]:
                if not task or line["task"] == task:
                    yield LogText(line["task"], line["attempt"], line["stream"], line["text"], line["time"])
            after = told["next"]


def named(transport: Transport, text: str) -> RemoteJob:
    """The job that a user means: ``train``, ``mira~train``, ``mira/train`` or the address of its page. Raises
    ClientError."""
    if "://" in text and address(text) != transport.account.url:
        other = f"{text} is a page of another portal than {transport.account.url}, where you are signed in."
        raise NotMeant(f"{other} If both are one portal, say the job's name, as mira~train.")
    name = text.partition("/jobs/")[2].partition("#")[0].partition("?")[0] if "://" in text else text
    parts = [part for part in name.replace("~", "/", 1).split("/") if part]
    if not parts or (len(parts) > 2 and "://" not in text):
        raise NotMeant(f"{text} is no name of a job.")
    return RemoteJob(transport, *(parts[:2] if len(parts) > 1 else (transport.account.user, parts[0])))
