"""What the recovery table says of the database and of two schedulers: nothing is written twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from django.db import OperationalError
from django.db.models.query import QuerySet

from base.wakes.lease import Fenced, Lease
from clusters.placement.free import FreeNodes
from jobs.containers import claims, tasks
from jobs.models import Job, Task
from jobs.planning.world import JobPlan, Plan
from jobs.scheduling.apply import apply
from jobs.scheduling.writes import ToWrite, write
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db


def test_two_schedulers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has planned already when the second takes its place: it writes nothing."""
    cluster.add_node(cpus=4)
    job = cluster.submit()
    second = cluster.new_scheduler(Lease("scheduler", holder="second", patience=timedelta()))
    real = FreeNodes.place

    def second_takes_over(room: FreeNodes, *args: object) -> object:
        monkeypatch.setattr(FreeNodes, "place", real)
        assert not second.lease.try_take(), "it has to see first that nobody renews"
        assert second.lease.try_take()
        return real(room, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(FreeNodes, "place", second_takes_over)
    with pytest.raises(Fenced):
        cluster.tick()
    assert (cluster.job(job).state, cluster.allocated(), cluster.orders()) == ("WAITING", 0, [])
    cluster.scheduler = second
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    assert len(cluster.containers()) == 1


def test_a_job_that_runs_again_is_not_ended_by_a_plan_of_its_last_attempt(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state has come back, with another attempt."""
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    cluster.finish(job, 0)

    def too_late(plan: Plan, now: datetime, lease: Lease) -> int:
        assert [one.after for one in plan.jobs] == ["SUCCEEDED"]
        Job.objects.filter(pk=job.pk).update(attempt_number=2)
        return apply(plan, now, lease)

    monkeypatch.setattr("jobs.scheduling.loop.apply", too_late)
    cluster.tick()
    assert cluster.job(job).state == "RUNNING"
    assert Task.objects.get(job=job).state == "RUNNING", "the plan of a job is applied whole or not at all"


def test_a_full_database_parks_no_job(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is written by the next pass, and nobody is asked to report the job; the others go on."""
    cluster.add_node()
    job, other = cluster.submit(), cluster.submit(name="other")

    def full(plans: Sequence[JobPlan], writing: ToWrite) -> None:
        if any(plan.job.id == job.pk for plan in plans):
            raise OperationalError("could not extend file: No space left on device")
        write(plans, writing)

    with monkeypatch.context() as patch:
        patch.setattr("jobs.scheduling.apply.write", full)
        cluster.tick()
    assert (cluster.job(job).state, cluster.job(job).parked_until) == ("WAITING", None)
    assert cluster.job(other).state == "RUNNING"
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"


def test_the_database_is_away_for_a_moment_when_a_fact_is_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    real, failures = QuerySet.update, iter([True, True, False])

    def flaky(rows: QuerySet[Task], **values: object) -> int:
        if "fact_at" in values and next(failures, False):
            raise OperationalError("the database is away")
        return real(rows, **values)

    monkeypatch.setattr(QuerySet, "update", flaky)
    monkeypatch.setattr(claims, "close_old_connections", lambda: None)  # the test's own transaction is on it
    monkeypatch.setattr(claims, "FACT_PAUSE", 0.001)
    cluster.work()
    monkeypatch.undo()
    cluster.settle()
    assert cluster.task(job).state == "RUNNING"


@pytest.mark.parametrize("at", [1, 2])  # right before create, right before start
def test_the_database_is_away_for_a_moment_in_the_middle_of_a_start(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    is_wanted, asked = claims.is_wanted, []

    def away(id: int, claim: str) -> bool:
        asked.append(id)
        if len(asked) == at:
            raise OperationalError("terminating connection due to administrator command")
        return is_wanted(id, claim)

    monkeypatch.setattr(claims, "is_wanted", away)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)
    cluster.work()
    assert cluster.task(job).fault is None, "the database is at fault, and no start"
    cluster.tick()
    cluster.ahead(4)
    cluster.settle()
    assert (cluster.task(job).state, cluster.job(job).attempt_number) == ("RUNNING", 1)
    assert len(cluster.containers()) == 1


def test_the_loop_goes_on_when_the_database_was_away(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, calls = cluster.scheduler, []

    def tick() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OperationalError("the database is away")
        scheduler.stop()
        return 0

    monkeypatch.setattr(scheduler, "tick", tick)
    monkeypatch.setattr("jobs.scheduling.loop.close_old_connections", lambda: None)
    monkeypatch.setattr("jobs.scheduling.loop.signal.signal", lambda *_: None)
    scheduler.run()
    assert len(calls) == 2
