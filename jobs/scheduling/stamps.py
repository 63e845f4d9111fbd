"""Stamps of live rows: texts that differ when the planner must read the row again, in one cheap query each.

A pass keeps the jobs and tasks that it has read and reads a row again only when its stamp differs. Everything the
planner sees of a row changes together with one of the stamp's columns. Jobs come in the order of their ids, so that the
same rows give the same list; whose turn it is, jobs/planning/turns.py decides.

The SQL is written by hand for two reasons. A stamp is one text, which takes half the time of reading its columns. And
conditions are literals, without which SQLite uses no partial index, since it compares them with the index's own before
it knows any parameter. Indexes: job_live, task_leftover.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

Stamp = str


def _stamp(*columns: str) -> str:
    return " || '|' || ".join(f"coalesce(CAST({column} AS TEXT), '')" for column in columns)


_JOB = _stamp(
    "j.id",
    "j.state",
    "j.execution",
    "j.attempt_number",
    "j.changed_at",
    "j.not_before",
    "j.parked_until",
    "j.deleted_at",
)
_TASK = _stamp(
    "t.id",
    "t.job_id",
    "t.state",
    "t.node",
    "t.changed_at",
    "t.ordered_at",
    "t.claimed_until",
    "t.fact_at",
    "coalesce(t.released_at, t.held_at)",
)
_LIVE = "(j.state IN ('WAITING', 'RUNNING') OR j.deleted_at IS NOT NULL)"
# All of it is in the index, so that no row with its long config is touched.
_JOBS = f"SELECT {_JOB} FROM jobs_job j WHERE {_LIVE} ORDER BY j.id"  # noqa: S608
# CROSS JOIN: in this order, which SQLite cannot know to be the best one.
_TASKS = f"""
    SELECT {_TASK} FROM jobs_job j CROSS JOIN jobs_attempt a CROSS JOIN jobs_task t
    WHERE {_LIVE} AND j.state = 'RUNNING' AND a.job_id = j.id AND a.number = j.attempt_number AND t.attempt_id = a.id
"""  # noqa: S608
_LEFTOVERS = f"""
    SELECT {_TASK} FROM jobs_task t WHERE NOT t.collected AND t.state IN ('SUCCEEDED', 'FAILED', 'STOPPED')
"""  # noqa: S608


def of_jobs() -> list[Stamp]:
    """Jobs that wait or run, and deleted ones that are not purged yet, by id."""
    return _read(_JOBS)


def of_tasks() -> list[Stamp]:
    """All tasks of the current attempts of running jobs."""
    return _read(_TASKS)


def of_leftovers() -> list[Stamp]:
    """Tasks that have ended and whose container may still be there."""
    return _read(_LEFTOVERS)


def by_id(stamps: Sequence[Stamp]) -> dict[int, Stamp]:
    return {int(stamp.partition("|")[0]): stamp for stamp in stamps}


def state_of_job(stamp: Stamp) -> str:
    return stamp.split("|", 2)[1]


def job_of_task(stamp: Stamp) -> int:
    return int(stamp.split("|", 2)[1])


def _read(query: str) -> list[Stamp]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [row[0] for row in cursor.fetchall()]
