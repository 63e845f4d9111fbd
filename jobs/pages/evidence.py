"""Shows the lines of the log that say why a job failed, in its cause panel. A diagnosis has them; where no rule knew
the cause they are the last lines of the task that decided it. Without an archived log there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.logs.places import place_of
from jobs.logs.read import find_task, last_lines, open_archive
from jobs.models import Job
from jobs.pages.cause import Cause
from jobs.planning.lifecycle import JobState
from portal.core.errors import LongshoreError

LINES = 12
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
