"""Stamps: a row that the planner must read again has another one, and others keep theirs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Job, Task
from jobs.scheduling import stamps
from tests.builders import make_job

pytestmark = pytest.mark.django_db
LATER = timezone.now() + timedelta(hours=1)


def test_without_rows_there_are_none() -> None:
    assert stamps.by_id(stamps.of_jobs()) == stamps.by_id(stamps.of_tasks()) == {}


def test_they_come_in_the_order_of_the_ids_whatever_was_written_last() -> None:
    ids = [make_job().pk for _ in range(3)]
    Job.objects.filter(id=ids[0]).update(changed_at=LATER)
    assert list(stamps.by_id(stamps.of_jobs())) == ids


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
    job, other = make_job(), make_job()
    before = stamps.by_id(stamps.of_jobs())
    Job.objects.filter(id=job.pk).update(**change)
    after = stamps.by_id(stamps.of_jobs())
    assert after[job.pk] != before[job.pk]
    assert after[other.pk] == before[other.pk]


@pytest.mark.parametrize("change", ["changed_at", "ordered_at", "claimed_until", "fact_at", "held_at", "released_at"])
def test_a_change_of_one_task_is_in_its_stamp_alone(change: str) -> None:
    job = make_job(state="RUNNING", tasks=2)
    before = stamps.by_id(stamps.of_tasks())
    task = Task.objects.filter(job=job).order_by("id").first()
    assert task is not None
    Task.objects.filter(id=task.pk).update(**{change: LATER})
    after = stamps.by_id(stamps.of_tasks())
    assert [id for id in before if before[id] != after[id]] == [task.pk]
    assert after[task.pk][1] == str(job.pk)
