"""What tests of logs share: a cluster whose tasks write, and watching a log as the page does: an EventSource that keeps
lines by number, and reconnects where it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from base.models import User
from clusters.engines import schemes
from clusters.engines.runtime import Stream
from jobs.logs.follow import hub
from jobs.logs.together import live as log_live
from jobs.models import Job
from tests.cluster import Clock, Cluster
from tests.helpers import patience


@contextmanager
def cluster_with_logs(owner: User, settings: Any, home: Path) -> Iterator[Cluster]:
    """A cluster of fake engines whose logs are spooled below ``home``; nobody follows any when it ends."""
    settings.HOME = home
    hub.close()  # a page of the last test may have asked once more, about a task of the same number
    try:
        yield Cluster(owner, Clock())
    finally:
        hub.close()
        schemes.set_engine_factory(None)


def write(cluster: Cluster, job: Job, data: bytes | str) -> None:
    """The job's first task writes this to its stdout."""
    text = data.encode() if isinstance(data, str) else data
    cluster.engines["n1"].print(cluster.task(job).container_name, text)


class Viewer:
    """Applies events to ``lines`` (number -> text). ``place`` is what a browser would send as Last-Event-ID."""

    def __init__(self) -> None:
        self.lines: dict[int, str] = {}
        self.place: int | None = None
        self.skipped = 0
        self.notes: list[str] = []
        self.ended: dict[str, int] | None = None
        self.largest = 0  # bytes of one event
        self.doubled: list[int] = []  # whole lines that came again
        self._whole: set[int] = set()

    def take(self, text: str) -> str:
        """The kind of the event, "" for a comment."""
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines() if not line.startswith(":"))
        if "id" in fields:
            self.place = int(fields["id"].rpartition(":")[2])
        self.largest = max(self.largest, len(text))
        kind, data = fields.get("event", ""), json.loads(fields.get("data", "null"))
        if kind == "lines":
            for line in data:
                self._line(line)
        elif kind == "skip":
            self.skipped += data["lines"]
        elif kind == "note":
            self.notes.append(data["text"])
        elif kind == "end":
            self.ended = data
        return kind

    def _line(self, line: dict[str, Any]) -> None:
        number = line["number"]
        if number in self._whole:
            self.doubled.append(number)
        if not line.get("partial"):
            self._whole.add(number)
        self.lines[number] = line["text"]

    def text(self) -> list[str]:
        assert list(self.lines) == list(range(1, len(self.lines) + 1)), "a line is missing or out of order"
        return list(self.lines.values())

    async def watch(
        self,
        task_id: int,
        stream: Stream = "stdout",
        *,
        until: Callable[[Viewer, str], bool] = lambda viewer, kind: False,
        timeout: float = 20.0,
    ) -> None:
        """Until ``until`` says so after an event, or the end."""
        async with asyncio.timeout(timeout * patience()):
            events = log_live.live_events([log_live.WatchedLog(0, task_id, stream, offset=self.place)])
            try:
                async for text in events:
                    kind = self.take(text)
                    if until(self, kind):
                        return
            finally:
                await events.aclose()
