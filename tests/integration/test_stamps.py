"""Stamps: a row that the planner must read again has another one, and others keep theirs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from jobs.models import Job, Task
from jobs.models.attempt import LIVE
from jobs.scheduling.rows import stamps
from jobs.scheduling.rows.stamps import Stamps
from tests.builders import make_job

pytestmark = pytest.mark.django_db
LATER = timezone.now() + timedelta(hours=1)


def known(of: Stamps) -> Stamps:
    """Of which all have been read."""
    of.read()
    of.take()
    return of


def test_without_rows_there_are_none() -> None:
    for of in (stamps.of_jobs(), stamps.of_tasks(), stamps.of_leftovers()):
        assert not of.read()
        assert (of.changed, of.gone) == ({}, set())


def test_they_come_in_the_order_of_the_ids_whatever_was_written_last() -> None:
    ids = [make_job().pk for _ in range(3)]
    Job.objects.filter(id=ids[0]).update(changed_at=LATER)
    of_jobs = stamps.of_jobs()
    assert of_jobs.read()
    assert list(of_jobs.changed) == ids
    assert [stamps.state_of_job(stamp) for stamp in of_jobs.changed.values()] == ["WAITING"] * 3


def test_what_was_not_taken_is_told_again() -> None:
    """Who could not read the rows reads them in the next pass."""
    of_jobs = known(stamps.of_jobs())
    job = make_job()
    assert of_jobs.read() and of_jobs.read()
    assert [*of_jobs.changed] == [job.pk]
    of_jobs.take()
    assert not of_jobs.read()
    Job.objects.filter(id=job.pk).update(state="FAILED")
    assert of_jobs.read()
    assert (of_jobs.changed, of_jobs.gone) == ({}, {job.pk})


@pytest.mark.parametrize(
    "change",
    [
        {"state": "RUNNING"},
        {"execution": "STOP"},
        {"attempt_number": 2},
        {"changed_at": LATER},
        {"not_before": LATER},
        {"parked_until": LATER},
        {"deleted_at": LATER},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_one_job_is_in_its_stamp_alone(change: dict[str, Any]) -> None:
    job, _ = make_job(), make_job()
    of_jobs = known(stamps.of_jobs())
    Job.objects.filter(id=job.pk).update(**change)
    of_jobs.read()
    assert ([*of_jobs.changed], of_jobs.gone) == ([job.pk], set())


@pytest.mark.parametrize("change", ["changed_at", "ordered_at", "claimed_until", "fact_at", "held_at", "released_at"])
def test_a_change_of_one_task_is_in_its_stamp_alone(change: str) -> None:
    job = make_job(state="RUNNING", tasks=2)
    of_tasks = known(stamps.of_tasks())
    task = Task.objects.filter(job=job).order_by("id").first()
    assert task is not None
    Task.objects.filter(id=task.pk).update(**{change: LATER})
    of_tasks.read()
    assert ([*of_tasks.changed], of_tasks.gone) == ([task.pk], set())


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite says which index it reads")
@pytest.mark.parametrize(
    ("read", "index"),
    [
        (f"SELECT t.id {stamps._LEFTOVERS}", "task_leftover"),
        (f"SELECT j.id {stamps._JOBS}", "job_live"),
        (f"SELECT t.id FROM jobs_task t WHERE {LIVE}", "task_live"),
    ],
)
def test_live_rows_are_read_from_an_index_of_them_alone(read: str, index: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {read}")
        assert index in cursor.fetchone()[-1]
