"""Shows the proof in the cause panel of a job: lines of the log, and how the memory grew of a task that ran out of it.

A diagnosis has the lines that say why the job failed; where no rule knew the cause they are the last lines of the task
that decided it. Without an archived log there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from base.core import words
from base.core.errors import LongshoreError
from jobs.logs.places import place_of
from jobs.logs.read import find_task, last_lines, open_archive
from jobs.metrics import read
from jobs.metrics.use import spark
from jobs.models import Job, Task
from jobs.planning.lifecycle import JobState
from portal.job.cause import Cause
from portal.job.page import Detail

LINES = 12
LEAST = 3  # points of memory; of fewer nobody sees a line
_WIDEST = 300  # characters of one line
_NEARLY = 0.8  # of the memory


@dataclass(frozen=True, slots=True)
class Tail:
    """Lines of one stream, each with its ``text``. ``is_proof``: they were picked, and those with a ``mark`` say what
    the panel says."""

    stream: str
    lines: Sequence[Mapping[str, Any]]
    is_proof: bool = False


def tail_of(job: Job, cause: Cause) -> Tail | None:
    """The lines to show; None when there are none. Only archived logs are read, as a page must not wait for a node."""
    if cause.lines:
        streams = words.listing(sorted({str(line["stream"]) for line in cause.lines}))
        is_proof = any(line["mark"] for line in cause.lines)
        return Tail(streams, cause.lines, is_proof)
    role, _, index = cause.task.rpartition("-")
    if cause.state != JobState.FAILED or not role or not index.isdigit():
        return None
    try:
        place = place_of(find_task(job, role, int(index)))
        for stream in ("stderr", "stdout"):
            log = open_archive(place, stream)
            texts = [line.text[:_WIDEST] for line in last_lines(log, LINES)] if log else []
            if any(text.strip() for text in texts):
                return Tail(stream, [{"text": text} for text in texts])
    except (LongshoreError, OSError):
        return None
    return None


@dataclass(frozen=True, slots=True)
class Memory:
    """``line`` is the ``d`` of a path as ``spark`` makes it, whose upper edge is the limit."""

    task: str
    line: str
    limit: str
    says: str
    unseen: str  # where its memory was used up between two samples
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
        spark(points, begin, end, series.step, max(limit, peak)),
        words.size(int(limit)),
        f"Memory of {cause.task}: it was seen to rise to {words.size(int(peak))} of {words.size(int(limit))}.",
        "" if peak > limit * _NEARLY else f"Seen up to {words.size(int(peak))}; the rest came between two samples.",
        datetime.fromtimestamp(begin, UTC),
        datetime.fromtimestamp(end, UTC),
    )
