"""What tells that a live row has changed, read in one cheap query each.

A pass keeps its values of jobs and tasks and reads a row again only when its stamp differs. Everything the planner
sees of a row changes together with one of the stamp's columns. The SQL is written by hand for two reasons: times come
as text, which takes a quarter of reading them, and conditions are literals, without which SQLite uses no partial index
(it compares them with the index's own before it knows any parameter). Indexes: job_live, task_leftover.
"""

from __future__ import annotations

from django.db import connection

Stamp = tuple[object, ...]

_LIVE = "(j.state IN ('WAITING', 'RUNNING') OR j.deleted_at IS NOT NULL)"
# All of it is in the index, so that no row with its long config is touched.
_JOBS = f"""
    SELECT j.id, j.state, j.execution, j.attempt_number, CAST(j.changed_at AS TEXT), CAST(j.not_before AS TEXT),
        CAST(j.parked_until AS TEXT), CAST(j.deleted_at AS TEXT)
    FROM jobs_job j WHERE {_LIVE} ORDER BY j.id
"""  # noqa: S608
# CROSS JOIN: in this order, which SQLite cannot know to be the best one.
_TASKS = f"""
    SELECT t.id, t.job_id, t.state, t.node, CAST(t.changed_at AS TEXT), CAST(t.ordered_at AS TEXT),
        CAST(t.claimed_until AS TEXT), CAST(t.fact_at AS TEXT)
    FROM jobs_job j CROSS JOIN jobs_attempt a CROSS JOIN jobs_task t
    WHERE {_LIVE} AND j.state = 'RUNNING' AND a.job_id = j.id AND a.number = j.attempt_number AND t.attempt_id = a.id
"""  # noqa: S608
_LEFTOVERS = """
    SELECT t.id, t.job_id, t.state, t.node, CAST(t.changed_at AS TEXT), CAST(t.ordered_at AS TEXT),
        CAST(t.claimed_until AS TEXT), CAST(t.fact_at AS TEXT)
    FROM jobs_task t WHERE NOT t.collected AND t.state IN ('SUCCEEDED', 'FAILED', 'STOPPED')
"""


def of_jobs() -> dict[int, Stamp]:
    """Jobs that wait or run, and deleted ones that are not purged yet, in the order of their submission. The first two
    of a stamp are id and state."""
    return {row[0]: row for row in _rows(_JOBS)}


def of_tasks() -> dict[int, Stamp]:
    """All tasks of the current attempts of running jobs. The first two of a stamp are the ids of task and job."""
    return {row[0]: row for row in sorted(_rows(_TASKS))}


def of_leftovers() -> dict[int, Stamp]:
    """Tasks that have ended and whose container may still be there."""
    return {row[0]: row for row in _rows(_LEFTOVERS)}


def _rows(query: str) -> list[Stamp]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
