"""Stamps of live rows: values that differ when the planner must read the row again, in one cheap query each.

A pass keeps the jobs and tasks that it has read and reads a row again only when its stamp differs. Everything the
planner sees of a row changes together with one of the stamp's columns. Whose turn it is, jobs/planning/turns.py
decides.

A query gives one text for each column, the values of all rows with commas between them: that takes a tenth of the time
of as many rows, and texts that equal those of the last pass are not looked into. No value has a comma in it: they are
numbers, moments, states and names of nodes. Conditions are literals, without which SQLite uses no partial index, since
it compares them with the index's own before it knows any parameter. Indexes: job_live, task_leftover.
"""

from __future__ import annotations

from django.db import connection

Stamps = tuple[str, ...]  # by column: the values of all rows
Stamp = tuple[str, ...]  # the values of one row
Split = dict[int, tuple[str, list[str]]]  # by number of the column: its text, and the values

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
_LEFTOVERS = "FROM jobs_task t WHERE NOT t.collected AND t.state IN ('SUCCEEDED', 'FAILED', 'STOPPED')"


def of_jobs() -> Stamps:
    """Jobs that wait or run, and deleted ones that are not purged yet."""
    return _read(_JOB, _JOBS)


def of_tasks() -> Stamps:
    """All tasks of the current attempts of running jobs."""
    return _read(_TASK, _TASKS)


def of_leftovers() -> Stamps:
    """Tasks that have ended and whose container may still be there."""
    return _read(_TASK, _LEFTOVERS)


def by_id(stamps: Stamps, split: Split | None = None) -> dict[int, Stamp]:
    """The stamp of each row, in the order of the ids, so that the same rows give the same lists. ``split`` has the
    columns of the same table as they were the last time, and then as they are now."""
    if not stamps[0]:
        return {}
    split = {} if split is None else split
    for at, text in enumerate(stamps):
        if at not in split or split[at][0] != text:  # most columns are as in the last pass
            split[at] = text, text.split(",")
    columns = [split[at][1] for at in range(len(stamps))]
    ids = list(map(int, columns[0]))
    found = dict(zip(ids, zip(*columns, strict=True), strict=True))
    return found if ids == sorted(ids) else dict(sorted(found.items()))


def state_of_job(stamp: Stamp) -> str:
    return stamp[1]


def _read(columns: tuple[str, ...], rows: str) -> Stamps:
    join = "string_agg(coalesce(CAST({} AS TEXT), ''), ',')"
    if connection.vendor == "sqlite":
        join = "group_concat(coalesce({}, ''))"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(map(join.format, columns))} {rows}")
        return tuple(text or "" for text in cursor.fetchone())
