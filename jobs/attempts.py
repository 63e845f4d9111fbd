"""Opening an attempt: its row, its v1 application id and one WAITING task per container of the spec."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from jobs.launch import app_id
from jobs.models import Attempt, Job, Task

_TASKS_AT_ONCE = 2000


def open_attempt(job: Job, number: int, at: datetime) -> Attempt:
    """Insert attempt ``number`` of a saved job with all its tasks. The caller holds the transaction.

    ``app_id`` is ``application_<ms>_<n>``, as v1 clients parse it: when it was opened, and its row id, which makes
    it unique.
    """
    attempt = Attempt.objects.create(job=job, number=number, app_id=uuid.uuid4().hex, created_at=at)
    attempt.app_id = app_id(int(at.timestamp() * 1000), attempt.pk)
    attempt.save(update_fields=["app_id"])
    tasks = _tasks(job, attempt, at)
    while chunk := list(islice(tasks, _TASKS_AT_ONCE)):
        Task.objects.bulk_create(chunk)
    return attempt


def _tasks(job: Job, attempt: Attempt, at: datetime) -> Iterator[Task]:
    for role in job.spec["taskRoles"]:
        for index in range(role["taskNumber"]):
            yield Task(job=job, attempt=attempt, role=role["name"], index=index, changed_at=at)
