"""Shows the last lines of the task that made a job fail, in its cause panel. Without an archived log it shows none."""

from __future__ import annotations

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
class Tail:
    stream: str
    text: str


def tail_of(job: Job, cause: Cause) -> Tail | None:
    """The last lines of stderr, else of stdout; None when there are none. Only archived logs are read, as a page must
    not wait for a node."""
    role, _, index = cause.task.rpartition("-")
    if cause.state != JobState.FAILED or not role or not index.isdigit():
        return None
    try:
        place = place_of(find_task(job, role, int(index)))
        for stream in ("stderr", "stdout"):
            log = open_archive(place, stream)
            lines = last_lines(log, LINES) if log else []
            if text := "\n".join(line.text[:_WIDEST] for line in lines).strip("\n"):
                return Tail(stream, text)
    except (LongshoreError, OSError):
        return None
    return None
