"""Opens an attempt: its row, its v1 application id, and one WAITING task for each container of the spec."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import connection

from base.core.bulk import insert_row, update_rows
from jobs.models import Attempt, Job, Task


def open_attempt(job: Job, number: int, at: datetime) -> Attempt:
    """Insert attempt ``number`` of a saved job with all its tasks, in config order. Call it inside a transaction.

    ``app_id`` is ``application_1552000000000_0042``, which v1 clients parse: the time of opening in milliseconds since
    1970, and the id of the row, which makes it unique.
    """
    attempt = Attempt(job=job, number=number, app_id=uuid.uuid4().hex, created_at=at)
    insert_row(attempt)
    attempt.app_id = f"application_{int(at.timestamp() * 1000)}_{attempt.pk:04d}"
    update_rows(Attempt, ("app_id",), ("id",), [(attempt.app_id, attempt.pk)])
    for role in job.spec["taskRoles"]:
        first = Task(job=job, attempt=attempt, role=role["name"], index=0, changed_at=at)
        insert_row(first)
        if role["taskNumber"] > 1:
            _repeat(first, role["taskNumber"])
    return attempt


def _repeat(first: Task, number: int) -> None:
    """Copy the task to the indices from 1 to ``number`` - 1, inside the database: the 50,000 rows of a large gang take
    a second there, and half a minute through the models."""
    quote = connection.ops.quote_name
    index = quote("index")
    columns = [quote(str(field.column)) for field in Task._meta.concrete_fields if not field.primary_key]
    values = ["numbers.number" if column == index else f"task.{column}" for column in columns]
    table = quote(Task._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE numbers(number) AS "  # noqa: S608 - names of our own model, no values
            "(SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < %s) "
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"FROM numbers, {table} AS task WHERE task.id = %s ORDER BY numbers.number",
            [number - 1, first.pk],
        )
