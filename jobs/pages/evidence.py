"""Shows the proof in the cause panel of a job: lines of the log, and how the memory grew of a task that ran out of it.

A diagnosis has the lines that say why the job failed; where no rule knew the cause they are the last lines of the task
that decided it. Without an archived log there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jobs.logs.places import place_of
from jobs.logs.read import find_task, last_lines, open_archive
from jobs.metrics import read, spark
from jobs.models import Job, Task
from jobs.pages.cause import Cause
from jobs.pages.detail import Detail
from jobs.planning.lifecycle import JobState
from portal.core import words
from portal.core.errors import LongshoreError

LINES = 12
LEAST = 3  # points of memory; of fewer nobody sees a line
_WIDEST = 300  # characters of one line


@dataclass(frozen=True, slots=True)
class Shown:
    number: int
    text: str
    mark: bool = False


@dataclass(frozen=True, slots=True)
class Tail:
    """Lines of one stream. ``is_proof``: they were picked, and those that are marked say what the panel says."""

    stream: str
    lines: Sequence[Shown]
    is_proof: bool = False


def tail_of(job: Job, cause: Cause) -> Tail | None:
    """The lines to show; None when there are none. Only archived logs are read, as a page must not wait for a node."""
    if cause.lines:
        return Tail(cause.stream, [Shown(one["number"], one["text"], one["mark"]) for one in cause.lines], True)
    role, _, index = cause.task.rpartition("-")
    if cause.state != JobState.FAILED or not role or not index.isdigit():
        return None
    try:
        place = place_of(find_task(job, role, int(index)))
        for stream in ("stderr", "stdout"):
            log = open_archive(place, stream)
            lines = [Shown(line.number, line.text[:_WIDEST]) for line in (last_lines(log, LINES) if log else [])]
            if any(line.text.strip() for line in lines):
                return Tail(stream, lines)
    except (LongshoreError, OSError):
        return None
    return None


@dataclass(frozen=True, slots=True)
class Memory:
    """``line`` is the ``d`` of a path in a box of ``spark.WIDE`` by ``spark.HIGH``, whose upper edge is the limit."""

    task: str
    line: str
    limit: str
    says: str
    begin: datetime
    end: datetime


def memory_of(shown: Detail) -> Memory | None:
    """None where too little was measured. No query."""
    cause = shown.cause
    attempt = next((one for one in shown.attempts if cause and one.number == cause.attempt), None)
    role, _, index = cause.task.rpartition("-") if cause else ("", "", "")
    limit = next((one.memory_mb * 2.0**20 for one in shown.spec.task_roles if one.name == role), 0.0)
    if cause is None or attempt is None or not limit or not index.isdecimal():
        return None
    series = read.series(attempt, Task(role=role, index=int(index)), *read.span_of(attempt))
    points = {at: most for at, _, most in series.points.get("memory", ())}
    if len(points) < LEAST:
        return None
    begin, end, peak = min(points), max(points) + series.step, max(points.values())
    return Memory(
        cause.task,
        spark.path(points, begin, end, series.step, max(limit, peak)),
        words.size(int(limit)),
        f"Memory of {cause.task}: it rose to {words.size(int(peak))} of {words.size(int(limit))}.",
        datetime.fromtimestamp(begin, UTC),
        datetime.fromtimestamp(end, UTC),
    )
