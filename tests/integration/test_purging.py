"""The rows of deleted jobs go piece by piece, so that nobody waits long for the database; and nobody sees a half."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import services
from jobs.models import Attempt, Discarded, Event, Job, Task
from jobs.scheduling import apply
from tests.builders import make_job
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db
MOST = 10


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.HOME = tmp_path
    monkeypatch.setattr(apply, "MOST_PURGED", MOST)


def rows() -> int:
    return Task.objects.count() + Event.objects.count()


def deleted(cluster: Cluster, name: str, tasks: int) -> Job:
    job = make_job(cluster.owner.username, name, state="SUCCEEDED", tasks=tasks)
    Task.objects.update(collected=True)
    services.delete(cluster.owner, job)
    return job


def test_no_pass_deletes_more_than_so_many_rows_and_the_next_one_goes_on_at_once(
    cluster: Cluster, client: Client
) -> None:
    job = deleted(cluster, "large", 4 * MOST)
    app_ids = list(Attempt.objects.values_list("app_id", flat=True))
    passes, left = 0, rows()
    while Job.objects.filter(pk=job.pk).exists():
        assert not Discarded.objects.exists()
        cluster.tick()
        assert 0 < left - rows() <= MOST
        assert cluster.scheduler.again_at is not None and cluster.scheduler.again_at <= cluster.clock.steady()
        assert client.get(f"/api/v1/user/{job.username}/jobs/large").status_code == 404
        passes, left = passes + 1, rows()
    assert passes > 4
    assert [row.app_ids for row in Discarded.objects.all()] == [app_ids]
    assert not Attempt.objects.exists() and not rows()
    cluster.tick()
    assert cluster.scheduler.again_at is None or cluster.scheduler.again_at > cluster.clock.steady()


def test_many_small_jobs_are_deleted_together(cluster: Cluster) -> None:
    for number in range(3):
        deleted(cluster, f"small-{number}", 1)
    before = rows()
    with CaptureQueriesContext(connection) as asked:
        cluster.tick()
        cluster.tick()
    assert before <= 2 * MOST
    assert not Job.objects.exists()
    assert sum(each["sql"].startswith("DELETE") and "jobs_task" in each["sql"] for each in asked) <= 4


def test_the_name_is_free_while_the_old_rows_go(cluster: Cluster) -> None:
    deleted(cluster, "large", 4 * MOST)
    cluster.tick()
    new = cluster.submit(name="large")
    for _ in range(9):
        cluster.tick()
    assert [job.pk for job in Job.objects.all()] == [new.pk]
    assert Task.objects.filter(job=new).count() == 1


def test_a_half_survives_a_scheduler_that_ends(cluster: Cluster) -> None:
    deleted(cluster, "large", 4 * MOST)
    cluster.tick()
    assert 0 < Task.objects.count() < 4 * MOST
    lease, cluster.scheduler = cluster.scheduler.lease, cluster.new_scheduler(cluster.scheduler.lease)
    assert lease.epoch is not None
    for _ in range(9):
        cluster.tick()
    assert not Job.objects.exists() and Discarded.objects.count() == 1


def test_tasks_of_a_waiting_job_that_is_deleted_are_not_written_before_they_go(cluster: Cluster) -> None:
    job = cluster.submit(name="waits", roles=[{"cpuNumber": 9999, "taskNumber": 4}])
    services.delete(cluster.owner, job)
    with CaptureQueriesContext(connection) as asked:
        for _ in range(3):
            cluster.tick()
    assert not Job.objects.exists()
    assert not [each["sql"] for each in asked if each["sql"].startswith('UPDATE "jobs_task"')]
