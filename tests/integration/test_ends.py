"""How a job is told to end: a notice, TERM, KILL, the same whatever ends it, and whoever dies in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from base.core.errors import Forbidden
from base.models import User
from clusters.engines.runtime import SAVED_FILE, TOLD_FILE
from clusters.models import Node, VcGrant, VirtualCluster
from jobs import services
from jobs.containers import tasks
from jobs.models import Job
from jobs.scheduling.load import WorldLoader
from portal.job.page import Detail
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db

USR1 = {"graceSeconds": 120, "notice": {"signal": "SIGUSR1", "seconds": 100}}


@pytest.fixture
def deaf(cluster: Cluster) -> Callable[..., Job]:
    """Starts a job whose program does not end by itself, in a virtual cluster that allows 300 seconds."""
    VirtualCluster.objects.create(name="a", capacity=50, max_capacity=100)
    VirtualCluster.objects.create(name="b", capacity=50, max_capacity=100, grace=300)
    for vc in VirtualCluster.objects.filter(name__in="ab"):
        VcGrant.objects.create(vc=vc, username=cluster.owner.username)
    cluster.add_node(gpus=4).behave(cluster.runs(None, ignores_term=True))

    def start(vc: str = "b", **extras: Any) -> Job:
        job = cluster.submit(virtualCluster=vc, roles=[{"gpuNumber": 4}], extras=extras)
        cluster.settle()
        assert cluster.job(job).state == "RUNNING"
        return job

    return start


def signals(cluster: Cluster, job: Job) -> list[str]:
    return cluster.engines["n1"].signals_of(cluster.task(job).container_name)


def state(cluster: Cluster, job: Job) -> str:
    return cluster.task(job).state


def stop(cluster: Cluster, job: Job) -> None:
    services.stop(cluster.owner, job)


def drain(cluster: Cluster, job: Job) -> None:
    Node.objects.update(status=Node.Status.DRAINING)


def reclaim(cluster: Cluster, job: Job) -> None:
    cluster.submit(name="owner", virtualCluster="a", roles=[{"gpuNumber": 2}])


def run_out(cluster: Cluster, job: Job) -> None:
    cluster.ahead(1000)


REASONS = {"stopped": stop, "evicted": drain, "evicted for an owner": reclaim, "time": run_out}


@pytest.mark.parametrize("why", REASONS)
def test_whatever_ends_it_the_notice_comes_first_then_term_then_kill(
    cluster: Cluster, deaf: Callable[..., Job], why: str
) -> None:
    job = deaf(**USR1, maxRunSeconds=999)
    engine, name = cluster.engines["n1"], cluster.task(job).container_name
    REASONS[why](cluster, job)
    cluster.settle()
    told = json.loads(engine.files_of(name)[TOLD_FILE])
    assert (told["why"], told["signal"]) == (why.split()[0], "SIGUSR1")
    assert (told["termSeconds"], told["killSeconds"], told["reason"][:1] != "") == (100, 120, True)
    assert signals(cluster, job) == ["SIGUSR1"]
    cluster.ahead(99)
    cluster.settle()
    assert signals(cluster, job) == ["SIGUSR1"] and state(cluster, job) == "STOPPING"
    assert cluster.scheduler.again_at is not None
    cluster.ahead(1)
    cluster.settle()
    assert signals(cluster, job) == ["SIGUSR1", "SIGTERM"] and engine.calls["stop"] == 0
    cluster.ahead(20)
    cluster.tick()
    cluster.work()
    assert engine.calls["stop"] == 1
    cluster.settle()
    assert cluster.attempts(job)[0].completed_at is not None


@pytest.mark.parametrize(("end", "seconds"), [(stop, 10), (run_out, 10), (drain, 30), (reclaim, 30)])
def test_a_job_that_asks_for_nothing_has_as_long_as_ever(
    cluster: Cluster, deaf: Callable[..., Job], end: Callable[..., None], seconds: int
) -> None:
    job = deaf(maxRunSeconds=999)
    end(cluster, job)
    cluster.settle()
    assert signals(cluster, job) == ["SIGTERM"]
    cluster.ahead(seconds - 0.5)
    cluster.settle()
    assert cluster.engines["n1"].calls["stop"] == 0
    cluster.ahead(0.5)
    cluster.settle()
    assert cluster.engines["n1"].calls["stop"] == 1


def test_no_thread_of_a_worker_waits_for_the_grace_to_be_over(cluster: Cluster, deaf: Callable[..., Job]) -> None:
    job = deaf(graceSeconds=300)
    stop(cluster, job)
    cluster.settle()
    assert cluster.task(job).claimed_until is None and not cluster.orders()


def test_what_saved_before_the_notice_does_not_shorten_it_and_what_saves_then_does(
    cluster: Cluster, deaf: Callable[..., Job]
) -> None:
    job = deaf(**USR1)
    engine, name = cluster.engines["n1"], cluster.task(job).container_name
    engine.touch(name, SAVED_FILE)
    drain(cluster, job)
    cluster.settle()
    cluster.ahead(6)
    cluster.settle()
    assert state(cluster, job) == "STOPPING" and cluster.job(job).saved_at is None
    engine.touch(name, SAVED_FILE)
    cluster.ahead(5)
    cluster.tick()
    cluster.work()
    assert cluster.job(job).saved_at is not None and engine.calls["stop"] == 1
    cluster.settle()
    again = cluster.job(job)
    assert (again.state, again.user_retries, again.attempt_number) == ("WAITING", 0, 2)


def test_what_its_owner_says_to_have_saved_meanwhile_does_not_end_the_grace(
    cluster: Cluster, deaf: Callable[..., Job]
) -> None:
    """They may speak of one task, while others are still at it."""
    job = deaf(**USR1)
    drain(cluster, job)
    cluster.settle()
    services.saved(cluster.owner, cluster.job(job))
    cluster.ahead(11)
    cluster.settle()
    assert state(cluster, job) == "STOPPING" and cluster.job(job).saved_at is not None
    assert cluster.engines["n1"].calls["stop"] == 0


def test_a_short_grace_is_not_looked_at_again_and_again(cluster: Cluster, deaf: Callable[..., Job]) -> None:
    stop(cluster, deaf())
    cluster.settle()
    cluster.ahead(9)
    cluster.settle()
    assert cluster.engines["n1"].calls["tell"] == 1


@pytest.mark.parametrize("dies", ["before it is told", "after it was told"])
def test_a_worker_that_dies_in_between_delays_no_kill(
    cluster: Cluster, deaf: Callable[..., Job], dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = deaf(graceSeconds=60)
    stop(cluster, job)
    cluster.tick()
    cluster.tick()
    if dies == "before it is told":
        cluster.lose_orders()
        cluster.ahead(15)
    cluster.settle()
    assert signals(cluster, job) == ["SIGTERM"]
    cluster.ahead(56)
    cluster.tick()  # it is to be looked at, and that order is lost
    cluster.lose_orders()
    cluster.ahead(4)
    cluster.settle()
    assert cluster.engines["n1"].calls["stop"] == 1


def test_another_scheduler_knows_when_the_grace_is_over(cluster: Cluster, deaf: Callable[..., Job]) -> None:
    job = deaf(graceSeconds=60)
    stop(cluster, job)
    cluster.settle()
    cluster.ahead(40)
    cluster.scheduler._loader = WorldLoader()
    cluster.settle()
    assert state(cluster, job) == "STOPPING"
    cluster.ahead(20)
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"


def test_an_order_of_the_release_before_is_carried_out_without_haste(
    cluster: Cluster, deaf: Callable[..., Job]
) -> None:
    job = deaf(graceSeconds=60)
    stop(cluster, job)
    cluster.tick()
    cluster.lose_orders()
    task = cluster.task(job)
    tasks.carry_out("stop", task.pk, "n1", task.container_name)
    assert signals(cluster, job) == ["SIGTERM"] and cluster.engines["n1"].calls["stop"] == 0


def test_who_stops_it_again_once_it_is_told_leaves_it_no_more_grace(cluster: Cluster, deaf: Callable[..., Job]) -> None:
    job = deaf(graceSeconds=300)
    assert services.stop(cluster.owner, job)
    assert not services.stop(cluster.owner, job), "a second click before anybody was told changes nothing"
    cluster.settle()
    assert state(cluster, job) == "STOPPING"
    assert services.stop(cluster.owner, job) and not services.stop(cluster.owner, job)
    cluster.settle()
    assert (cluster.job(job).state, cluster.kinds(job).count("job.stop_now")) == ("STOPPED", 1)


def test_it_can_be_stopped_now_at_once(cluster: Cluster, deaf: Callable[..., Job], admin: User) -> None:
    job = deaf(graceSeconds=300)
    assert services.stop(admin, job, now=True)
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"


def test_an_evicted_job_can_be_stopped_and_then_stopped_now(cluster: Cluster, deaf: Callable[..., Job]) -> None:
    job = deaf(graceSeconds=300)
    drain(cluster, job)
    cluster.settle()
    assert services.stop(cluster.owner, job)
    cluster.settle()
    assert state(cluster, job) == "STOPPING", "it keeps the grace that it was told of"
    assert services.stop(cluster.owner, job)
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"


def test_the_page_says_until_when_it_ends_and_why(cluster: Cluster, deaf: Callable[..., Job]) -> None:
    job = deaf(graceSeconds=120)
    assert Detail(cluster.job(job), cluster.owner).ending is None
    drain(cluster, job)
    cluster.settle()
    ending = Detail(cluster.job(job), cluster.owner).ending
    assert ending is not None and (ending.until - ending.told).total_seconds() == 120
    assert (ending.word, ending.reason) == ("evicted", "Node n1 is being drained.")


def test_what_an_admin_allows_less_of_later_holds_for_jobs_that_are_there(
    cluster: Cluster, deaf: Callable[..., Job]
) -> None:
    job = deaf(graceSeconds=300)
    VirtualCluster.objects.filter(name="b").update(grace=20)
    stop(cluster, job)
    cluster.settle()
    cluster.ahead(20)
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"


def test_who_saved_last_loses_least_and_is_evicted_first(cluster: Cluster, deaf: Callable[..., Job]) -> None:
    VirtualCluster.objects.filter(name="b").update(capacity=0)
    first = cluster.submit(name="first", virtualCluster="b", roles=[{"gpuNumber": 2}])
    cluster.settle()
    cluster.ahead(60)
    second = cluster.submit(name="second", virtualCluster="b", roles=[{"gpuNumber": 2}])
    cluster.settle()
    cluster.ahead(600)
    services.saved(cluster.owner, cluster.job(first))
    cluster.ahead(60)
    reclaim(cluster, first)
    cluster.settle()
    assert (state(cluster, first), state(cluster, second)) == ("STOPPING", "RUNNING")
    assert "since it last said that it saved" in cluster.attempts(first)[0].exit["reason"]


def test_nobody_else_says_that_it_saved(cluster: Cluster, deaf: Callable[..., Job], bob: User) -> None:
    job = deaf()
    with pytest.raises(Forbidden):
        services.saved(bob, job)
    assert cluster.job(job).saved_at is None


def test_the_next_attempt_knows_its_number_and_why_the_last_one_ended(
    cluster: Cluster, deaf: Callable[..., Job]
) -> None:
    job = deaf()
    env = cluster.engines["n1"].request_of(cluster.task(job).container_name).env
    assert [env["PAI_ATTEMPT"], env["PAI_LAST_END"], env["LONGSHORE_LAST_EXIT_CODE"]] == ["1", "", ""]
    drain(cluster, job)
    cluster.settle()
    cluster.ahead(30)
    cluster.settle()
    Node.objects.update(status=Node.Status.ACTIVE)
    cluster.ahead(60)
    cluster.settle()
    env = cluster.engines["n1"].request_of(cluster.task(job).container_name).env
    assert [env["LONGSHORE_ATTEMPT"], env["LONGSHORE_LAST_END"], env["PAI_LAST_EXIT_CODE"]] == ["2", "evicted", "-7120"]
    assert env["LONGSHORE_NOTICE_FILE"] == TOLD_FILE and cluster.job(job).saved_at is None
