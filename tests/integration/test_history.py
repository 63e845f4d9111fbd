"""What tasks held is written down with their allocations, and stays when the job is gone."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from clusters.models import Allocation
from jobs import services
from jobs.history import holdings
from jobs.models import Attempt, Holding, Job, Prediction, Task
from jobs.planning import exits
from tests.cluster import Cluster
from tests.integration.test_invariants import check

pytestmark = pytest.mark.django_db


def rows(**which: Any) -> list[Holding]:
    return list(Holding.objects.filter(**which).order_by("id"))


def assert_open_are_allocated() -> None:
    owners = set(Allocation.objects.values_list("owner", flat=True))
    assert {str(id) for id in Holding.objects.filter(ended=None).values_list("id", flat=True)} == owners


def test_a_placed_task_opens_a_row_that_says_what_it_holds(cluster: Cluster) -> None:
    cluster.add_node(gpus=4, gpu_type="A100")
    job = cluster.submit(roles=[{"taskNumber": 2, "gpuNumber": 2, "cpuNumber": 3}])
    cluster.settle()
    first, second = rows()
    assert (first.job_id, first.username, first.job_name, first.vc) == (job.pk, "alice", "j1", "default")
    assert (first.attempt, first.role, first.index, first.node) == (1, "worker", 0, "n1")
    assert (first.gpus, first.gpu_type, first.cpus, first.memory_mb) == (2, "A100", 3, 100)
    assert sorted(f"{first.gpu_ids},{second.gpu_ids}".split(",")) == ["0", "1", "2", "3"]
    assert (first.ended, first.outcome, first.exit_code) == (None, "", None)
    assert first.waited is not None and second.waited is None, "an attempt waits once"
    assert_open_are_allocated()


def test_it_closes_when_the_room_is_given_back_and_outlives_the_job(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = cluster.submit(roles=[{"gpuNumber": 1}])
    cluster.settle()
    cluster.ahead(3600)
    cluster.finish(job)
    cluster.settle()
    services.delete(cluster.owner, cluster.job(job))
    cluster.settle()
    assert not Job.objects.exists()
    (row,) = rows()
    assert row.ended is not None and row.ended - row.began >= 3_600_000
    assert (row.outcome, row.exit_code) == ("SUCCEEDED", 0)


def test_tasks_that_end_because_another_one_failed_were_used_for_a_failure(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = cluster.submit(roles=[{"taskNumber": 2}], retryCount=0)
    cluster.settle()
    cluster.finish(job, 3)
    cluster.settle()
    assert [(row.outcome, row.exit_code) for row in rows()] == [("FAILED", 255), ("FAILED", 255)]


def test_each_attempt_has_rows_of_its_own(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = cluster.submit(retryCount=1)
    cluster.settle()
    cluster.finish(job, 3)
    cluster.settle()
    cluster.ahead(60)
    cluster.settle()
    services.stop(cluster.owner, cluster.job(job))
    cluster.settle()
    assert [(row.attempt, row.outcome) for row in rows()] == [(1, "FAILED"), (2, "STOPPED")]


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "SUCCEEDED"), (255, "FAILED"), (-7351, "STOPPED"), (-7120, "EVICTED"), (-7111, "LOST")]
)
def test_the_exit_says_what_it_was_used_for(code: int, outcome: str) -> None:
    assert holdings.outcome_of(exits.exit_for(code)) == outcome
    fill = importlib.import_module("jobs.migrations.0014_holdings_of_before")
    assert fill._outcome(code) == outcome


def test_the_migration_knows_which_ends_were_the_jobs_own_fault() -> None:
    fill = importlib.import_module("jobs.migrations.0014_holdings_of_before")
    assert {holdings.outcome_of(exits.exit_for(code)) for code in fill.USERS_FAULT} == {"FAILED"}


def test_the_migration_writes_the_rows_of_tasks_from_before(cluster: Cluster) -> None:
    cluster.add_node(gpus=2, gpu_type="A100")
    ended = cluster.submit(name="ended", roles=[{"gpuNumber": 1}])
    cluster.submit(name="runs", roles=[{"gpuNumber": 1, "taskNumber": 1}])
    cluster.submit(name="waits", roles=[{"gpuNumber": 1}])
    cluster.settle()
    cluster.finish(ended)
    cluster.tick()
    before = list(Holding.objects.order_by("id").values())
    Holding.objects.all().delete()
    fill = importlib.import_module("jobs.migrations.0014_holdings_of_before").fill
    fill(apps, None)
    after = list(Holding.objects.order_by("id").values())
    assert len(after) == len(before) >= 2
    for old, new in zip(before, after, strict=True):
        times = {"began", "ended", "waited"}
        assert {key: new[key] for key in new if key not in times} == {key: old[key] for key in old if key not in times}
        assert all((new[key] is None) == (old[key] is None) for key in times)
    assert_open_are_allocated()


def test_old_rows_are_purged_and_open_ones_never(cluster: Cluster, settings: Any) -> None:
    settings.HISTORY_DAYS = 10
    now = timezone.now()
    for id, days in ((1, 9), (2, 11), (3, None)):
        at = holdings.milliseconds(now - timedelta(days=days or 99))
        more = {"job_id": 1, "username": "a", "job_name": "j", "vc": "default", "attempt": 1, "role": "w", "index": 0}
        amount = {"node": "n1", "gpus": 0, "cpus": 1, "memory_mb": 1}
        Holding.objects.create(id=id, began=at, ended=at if days else None, **more, **amount)
    spread = {"p10": 1, "p50": 2, "p90": 3}
    for days in (9, 11):
        made = holdings.milliseconds(now - timedelta(days=days))
        Prediction.objects.create(job_id=1, attempt=1, made=made, **spread)
    assert holdings.purge(now) == 2
    assert Prediction.objects.count() == 1
    assert [row.pk for row in rows()] == [1, 3]
    assert holdings.purge(now) == 0


def test_a_row_that_is_missing_or_left_over_is_put_right(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = cluster.submit(roles=[{"taskNumber": 2}])
    cluster.settle()
    assert check(cluster) == []
    Holding.objects.filter(id=cluster.task(job).pk).delete()
    Holding.objects.filter(id=cluster.task(job, 1).pk).update(id=10**9)
    assert {breach.key[0] for breach in check(cluster)} == {"unrecorded"}
    assert_open_are_allocated()
    assert Holding.objects.get(id=10**9).ended is not None
    assert check(cluster) == []


def test_a_pass_opens_all_rows_with_one_statement(cluster: Cluster) -> None:
    cluster.add_node(cpus=64)
    few = [cluster.submit(name=f"a{at}") for at in range(2)]
    cluster.tick()
    assert Task.objects.filter(state="STARTING").count() == len(few)
    statements = []
    for number in (3, 9):
        for at in range(number):
            cluster.submit(name=f"b{number}-{at}")
        with written_to("jobs_holding") as seen:
            cluster.tick()
        statements.append(seen())
    assert statements == [1, 1]
    assert Attempt.objects.filter(launched_at__isnull=False).count() == Holding.objects.count()


def written_to(table: str) -> Any:
    """Counts the statements that write to a table."""
    from contextlib import contextmanager

    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    @contextmanager
    def counted() -> Any:
        with CaptureQueriesContext(connection) as queries:
            yield lambda: sum(f'INTO "{table}"' in each["sql"] for each in queries.captured_queries)

    return counted()
