"""Rows that no pass looks at any more are put right, or told: nothing is held, and nobody waits, for ever."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import Allocation, Node
from jobs import services
from jobs.models import Attempt, Event, Job, Task
from jobs.scheduling.invariants import Breach
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db


def check(cluster: Cluster) -> list[Breach]:
    scheduler = cluster.scheduler
    return scheduler.invariants.check(scheduler.lease, cluster.clock.now())


def running(cluster: Cluster, **values: Any) -> Job:
    job = cluster.submit(roles=[{"taskNumber": 2, "gpuNumber": 1}], **values)
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    return job


def held() -> list[tuple[Any, ...]]:
    rows = Allocation.objects.order_by("owner")
    return [(row.owner, row.node_id, row.cpus, row.memory_mb, row.gpu_ids, sorted(row.ports)) for row in rows]


def test_there_is_nothing_to_find(cluster: Cluster) -> None:
    cluster.add_node(gpus=4)
    running(cluster)
    cluster.submit(name="waits", roles=[{"gpuNumber": 3}])
    cluster.settle()
    assert check(cluster) == []
    assert (cluster.scheduler.invariants.healed, cluster.scheduler.invariants.broken) == (0, 0)


def test_where_nothing_is_held_that_is_the_same_nothing_each_time_it_is_read(cluster: Cluster) -> None:
    cluster.add_node(gpus=4)
    seen = []
    for changed in ("one", "another"):
        Node.objects.update(health_reason=changed)
        cluster.tick()
        seen.append(cluster.scheduler._loader.seen)
    assert all(before is after for before, after in zip(*seen, strict=True))
    running(cluster)
    assert cluster.scheduler._loader.seen[1] and not seen[0][1], "what was handed out stays as it is"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite counts its steps")
def test_a_check_takes_steps_for_each_task_that_runs_and_none_for_those_that_ended(cluster: Cluster) -> None:
    def steps() -> int:
        counted = []
        connection.connection.set_progress_handler(lambda: counted.append(1), 10)
        try:
            assert check(cluster) == []
        finally:
            connection.connection.set_progress_handler(None, 0)
        return len(counted)

    def runs(name: str, tasks: int) -> Job:
        job = cluster.submit(name=name, roles=[{"taskNumber": tasks, "cpuNumber": 1, "memoryMB": 100}])
        cluster.settle()
        assert cluster.job(job).state == "RUNNING"
        return job

    cluster.add_node(cpus=1_000, memory_mb=100_000)
    runs("few", 30)
    few = steps()
    many = runs("many", 270)
    assert steps() < 15 * few
    services.stop(cluster.owner, many)
    cluster.settle()
    assert Task.objects.filter(state="STOPPED").count() == 270
    assert steps() < 1.5 * few


def test_what_nobody_has_changed_is_not_checked_again_at_once(cluster: Cluster) -> None:
    cluster.add_node(gpus=4)
    running(cluster)
    cluster.settle()
    scheduler = cluster.scheduler

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            scheduler.invariants.check_if_due(scheduler.lease, cluster.clock.now(), scheduler._loader.seen)
        return len(captured)

    assert statements() > 0
    cluster.tick()
    assert statements() == 0
    Allocation.objects.filter(owner=str(Task.objects.earliest("id").pk)).delete()
    cluster.tick()
    assert statements() > 0
    assert Event.objects.filter(kind="invariant.healed").count() == 1, "what a hand did is seen by the next pass"
    cluster.tick()
    assert (statements() > 0, statements()) == (True, 0), "and what was put right is looked at again"
    scheduler.invariants._again_at = 0.0
    assert statements() > 0


def test_what_is_held_for_nobody_is_given_back(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    node = Node.objects.get()
    for owner in ("4711", "nonsense"):
        Allocation.objects.create(owner=owner, node=node, vc="default", cpus=1, memory_mb=1, gpu_ids=[owner])
    waits = cluster.submit(roles=[{"gpuNumber": 2}])
    assert [breach.healed for breach in check(cluster)] == [True, True]
    cluster.settle()
    assert cluster.job(waits).state == "RUNNING"
    assert Event.objects.filter(kind="invariant.healed", node="n1").count() == 2


def test_an_ended_task_holds_nothing(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = running(cluster)
    kept = Allocation.objects.filter(owner=str(cluster.task(job).pk)).values().get()
    for at in (0, 1):
        cluster.finish(job, at=at)
    cluster.settle()
    Allocation.objects.create(**kept)
    assert [breach.key[0] for breach in check(cluster)] == ["ownerless"]
    cluster.assert_clean()


def test_live_tasks_of_an_attempt_that_is_over_are_stopped_and_collected(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = running(cluster)
    Job.objects.filter(pk=job.pk).update(state="FAILED")
    assert {breach.key[0] for breach in check(cluster)} == {"forgotten"}
    assert cluster.allocated() == 0
    cluster.tick()
    cluster.settle()
    cluster.assert_clean()
    assert {task.state for task in cluster.tasks(job)} == {"STOPPED"}


def test_a_job_that_waits_with_an_attempt_that_has_begun_gets_a_new_one(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = running(cluster)
    Job.objects.filter(pk=job.pk).update(state="WAITING")
    assert [breach.key[0] for breach in check(cluster)] == ["forgotten", "forgotten", "begun"]
    cluster.tick()
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).attempt_number) == ("RUNNING", 2)
    assert len(cluster.containers()) == 2
    assert Attempt.objects.get(job=job, number=1).completed_at is not None
    assert check(cluster) == []


def test_what_a_live_task_uses_is_held_again(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    running(cluster)
    before = held()
    Allocation.objects.all().delete()
    assert [breach.healed for breach in check(cluster)] == [True, True]
    assert held() == before


def test_what_somebody_else_has_by_now_is_told_once_and_counted(cluster: Cluster) -> None:
    cluster.add_node(gpus=1)
    job = cluster.submit(roles=[{"gpuNumber": 1}])
    cluster.settle()
    Allocation.objects.all().delete()
    other = cluster.submit(name="other", roles=[{"gpuNumber": 1}])
    cluster.settle()
    assert cluster.job(other).state == "RUNNING"
    check(cluster)  # also ends its part of the history
    for _ in range(2):
        assert [breach.healed for breach in check(cluster)] == [False]
    told = Event.objects.get(kind="invariant.broken")
    assert (told.job_id, told.node, "Stop one of the two jobs" in told.reason) == (job.pk, "n1", True)
    assert cluster.scheduler.invariants.broken == 1


def test_a_gpu_or_port_held_twice_is_told(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    running(cluster)
    Allocation.objects.update(gpu_ids=["0"], ports=[30000])
    assert sorted(breach.sentence for breach in check(cluster)) == [
        "GPU 0 of node n1 is held twice. Stop one of the two jobs.",
        "port 30000 of node n1 is held twice. Stop one of the two jobs.",
    ]


def test_a_job_whose_tasks_are_missing_is_never_called_succeeded(cluster: Cluster) -> None:
    cluster.add_node(gpus=2)
    job = running(cluster)
    Task.objects.filter(job=job).delete()
    cluster.tick()
    assert cluster.job(job).state == "RUNNING"
    assert "job.parked" in cluster.kinds(job)
    assert {breach.key[0] for breach in check(cluster)} == {"ownerless", "incomplete"}


def test_it_is_cheap(cluster: Cluster, django_assert_num_queries: Any) -> None:
    cluster.add_node(gpus=8, cpus=64)
    for at in range(3):
        running(cluster, name=f"j{at}")
    with django_assert_num_queries(10):  # of them three for the transaction and the lease
        check(cluster)
