"""Opens an attempt: its row, its v1 application id, and one WAITING task for each container of the spec. And notes when
it last saved."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from base.core.bulk import insert, update_rows
from base.wakes import wake
from jobs.models import Attempt, Job, Task
from jobs.planning.lifecycle import TASK_LIVE_STATES, JobState


def open_attempt(job: Job, number: int, at: datetime) -> None:
    """Insert attempt ``number`` of a saved job with all its tasks, in config order. Call it inside a transaction.

    ``app_id`` is ``application_1552000000000_0042``, which v1 clients parse: the time of opening in milliseconds since
    1970, and the id of the row, which makes it unique.
    """
    attempt = insert(Attempt, job_id=job.pk, number=number, app_id=uuid.uuid4().hex, created_at=at)
    update_rows(Attempt, ("app_id",), ("id",), [(f"application_{int(at.timestamp() * 1000)}_{attempt:04d}", attempt)])
    roles = [(role["name"], role["taskNumber"]) for role in job.spec["taskRoles"]]
    first = insert(Task, job_id=job.pk, attempt_id=attempt, role=roles[0][0], index=0, changed_at=at)
    if job.total_tasks > 1:
        _repeat(first, roles)


def _repeat(first: int, roles: Sequence[tuple[str, int]]) -> None:
    """Copy the task to all others of these roles, each a name and a number, inside the database and by one statement:
    the 50,000 rows of a large gang take a second there, and half a minute through the models."""
    quote = connection.ops.quote_name
    columns = [quote(str(field.column)) for field in Task._meta.concrete_fields if not field.primary_key]
    own = {quote("role"): "tasks.name", quote("index"): "tasks.at"}
    table = quote(Task._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH RECURSIVE roles(place, name, number) AS (VALUES {', '.join(['(%s, %s, %s)'] * len(roles))}), "  # noqa: S608 - names of our own model, no values
            "tasks(place, name, number, at) AS (SELECT place, name, number, 0 FROM roles "
            "UNION ALL SELECT place, name, number, at + 1 FROM tasks WHERE at + 1 < number) "
            f"INSERT INTO {table} ({', '.join(columns)}) "
            f"SELECT {', '.join(own.get(column, f'task.{column}') for column in columns)} "
            f"FROM tasks, {table} AS task WHERE task.id = %s AND (place > 0 OR at > 0) ORDER BY place, at",
            [*(value for place, role in enumerate(roles) for value in (place, *role)), first],
        )


def note_saved(tasks: Iterable[int], at: datetime | None = None) -> None:
    """Note that these tasks said that they saved, now or ``at``: only what came later can be lost."""
    now = timezone.now()
    at = min(at or now, now)
    live = Task.objects.filter(id__in=list(tasks), state__in=TASK_LIVE_STATES)
    jobs = Job.objects.filter(Q(saved_at=None) | Q(saved_at__lt=at), id__in=live.values("job"), state=JobState.RUNNING)
    if jobs.update(saved_at=at, changed_at=now):
        wake.notify("pages")
