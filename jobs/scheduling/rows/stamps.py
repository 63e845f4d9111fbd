"""Stamps of live rows: texts that differ when the planner must read the row again, in one cheap query for each kind.

A pass keeps the jobs and tasks that it has read and reads a row again only when its stamp differs. Everything the
planner sees of a row changes together with one of the stamp's columns. Whose turn it is, jobs/planning/turns.py
decides.

A query gives one text, the lists of JSON of all rows: that takes a third of the time of as many rows, and which of them
are others than the last time, sets say. No value has a bracket in it: they are numbers, moments, states and names of
nodes. Conditions are literals, without which SQLite uses no partial index, since it compares them with the index's own
before it knows any parameter. Indexes: job_live, task_leftover.
"""

from __future__ import annotations

from itertools import compress
from operator import ne

from base.core.bulk import text_of

_JOB = (
    *("j.id", "j.state", "j.execution", "j.attempt_number"),
    *("j.changed_at", "j.not_before", "j.parked_until", "j.deleted_at"),
)
_TASK = (
    *("t.id", "t.job_id", "t.state", "t.node", "t.changed_at", "t.ordered_at", "t.claimed_until", "t.fact_at"),
    "coalesce(t.released_at, t.held_at)",
)
_LIVE = "(j.state IN ('WAITING', 'RUNNING') OR j.deleted_at IS NOT NULL)"
# All of it is in the index, so that no row with its long config is touched.
_JOBS = f"FROM jobs_job j WHERE {_LIVE}"
# CROSS JOIN: in this order, which SQLite cannot know to be the best one.
_TASKS = f"""
    FROM jobs_job j CROSS JOIN jobs_attempt a CROSS JOIN jobs_task t
    WHERE {_LIVE} AND j.state = 'RUNNING' AND a.job_id = j.id AND a.number = j.attempt_number AND t.attempt_id = a.id
"""
_LEFTOVERS = """
    FROM jobs_task t WHERE NOT t.collected AND (t.state = 'SUCCEEDED' OR t.state = 'FAILED' OR t.state = 'STOPPED')
"""


class Stamps:
    """The stamps of one kind of rows, and which of them are others than those that were last ``taken``."""

    def __init__(self, columns: tuple[str, ...], rows: str) -> None:
        self._columns, self._rows = ", ".join(columns), rows
        self._taken: tuple[str, list[str]] = "", []
        self._now = self._taken
        self.changed: dict[int, str] = {}  # by id, in their order: rows that are new or differ
        self.gone: set[int] = set()  # ids of those that are not there any more

    def read(self) -> bool:
        """Read them as they are now, and return whether any differs."""
        (before, known), text = self._taken, text_of(self._columns, self._rows)
        self.changed, self.gone, self._now = {}, set(), self._taken
        if text != before:
            stamps = text[1:-1].split("],[") if text else []
            both = min(len(known), len(stamps))
            differs = [*map(ne, stamps, known)]  # most are where they were: only the others are compared as sets
            new, old = ({*compress(rows, differs), *rows[both:]} for rows in (stamps, known))
            self.changed = dict(sorted((id_of(stamp), stamp) for stamp in new - old))
            self.gone = {id_of(stamp) for stamp in old - new} - self.changed.keys()
            self._now = text, stamps
        return bool(self.changed or self.gone)

    def take(self) -> None:
        """What differed was read, and is known."""
        self._taken = self._now


def of_jobs() -> Stamps:
    """Jobs that wait or run, and deleted ones that are not purged yet."""
    return Stamps(_JOB, _JOBS)


def of_tasks() -> Stamps:
    """All tasks of the current attempts of running jobs."""
    return Stamps(_TASK, _TASKS)


def of_leftovers() -> Stamps:
    """Tasks that have ended and whose container may still be there."""
    return Stamps(_TASK, _LEFTOVERS)


def id_of(stamp: str) -> int:
    return int(stamp[: stamp.index(",")])


def state_of_job(stamp: str) -> str:
    return stamp.split('"', 2)[1]
