"""One test for each row of the recovery table: whatever happened, the next passes put it right."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django_q.signals import post_spawn

from base.models import User
from clusters.engines.runtime import (
    LABEL_INSTANCE,
    LABEL_TASK,
    ContainerRequest,
    FaultReason,
    LogChunk,
    Phase,
    Progress,
    RuntimeFault,
)
from clusters.models import Node
from jobs import services
from jobs.containers import claims, tasks
from jobs.logs import archive as log_archive
from jobs.logs.places import find_archive, place_of
from jobs.models import Attempt, Event, Job, Task
from jobs.planning.settle import ORDER_LAPSE
from tests.cluster import IMAGE, Cluster
from tests.fakes.runtime import FakeLog
from tests.helpers import LIMIT

pytestmark = pytest.mark.django_db
LAPSED = ORDER_LAPSE.total_seconds() + 1


class WorkerDied(BaseException):
    """SIGKILL: no handler of ours sees it."""


def dies(at: str) -> object:
    def step(name: str, what: str) -> None:
        if what == at:
            raise WorkerDied

    return step


def lives(name: str, what: str) -> None:
    return None


def kill_worker_at(cluster: Cluster, step: str, node: str = "n1") -> None:
    cluster.engines[node].step = dies(step)  # type: ignore[assignment]
    with pytest.raises(WorkerDied):
        cluster.work()
    cluster.engines[node].step = lives


def test_web_died_after_the_commit(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()  # nobody was woken
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"


def test_workers_are_down_or_an_order_is_lost(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    cluster.lose_orders()
    cluster.tick()
    assert cluster.orders() == [], "ordered again before anybody could have taken it up"
    cluster.ahead(LAPSED)
    cluster.settle()
    assert cluster.task(job).state == "RUNNING"
    assert len(cluster.containers()) == 1


def test_a_worker_is_killed_while_pulling(cluster: Cluster) -> None:
    cluster.add_node().images.clear()
    job = cluster.submit()
    cluster.tick()
    kill_worker_at(cluster, "pull")
    cluster.tick()
    assert cluster.orders() == [], "ordered again although the claim is open"
    cluster.ahead(claims.LEASE.total_seconds() + 1)
    cluster.settle()
    assert cluster.task(job).state == "RUNNING"
    assert len(cluster.containers()) == 1


def test_when_workers_start_again_nobody_waits_for_the_claims_of_those_killed(cluster: Cluster) -> None:
    cluster.add_node().images.clear()
    job = cluster.submit()
    cluster.tick()
    kill_worker_at(cluster, "pull")
    cluster.ahead(LAPSED)
    assert timedelta(seconds=LAPSED) < claims.LEASE
    cluster.tick()
    assert cluster.orders() == []
    post_spawn.send("django_q", proc_name="worker")
    cluster.settle()
    assert cluster.task(job).state == "RUNNING"
    assert len(cluster.containers()) == 1


def test_the_claims_of_another_portal_or_machine_are_left_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.add_node().images.clear()
    job = cluster.submit()
    cluster.tick()
    kill_worker_at(cluster, "pull")
    claim = cluster.task(job).claim
    monkeypatch.setattr(settings, "HOME", tmp_path)
    post_spawn.send("django_q", proc_name="worker")
    assert cluster.task(job).claim == claim != ""


def test_a_worker_is_killed_between_create_and_start(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    kill_worker_at(cluster, "start")
    assert [status.phase for status in cluster.containers()] == [Phase.CREATED]
    cluster.tick()
    cluster.ahead(claims.LEASE.total_seconds() + 1)
    cluster.settle()
    assert cluster.task(job).state == "RUNNING"
    assert [status.phase for status in cluster.containers()] == [Phase.RUNNING]


@pytest.mark.parametrize("step", ["pull", "create"])
def test_pull_or_create_is_refused_for_good(cluster: Cluster, step: str) -> None:
    runtime = cluster.add_node()
    runtime.images.clear()
    fault = RuntimeFault("There is no image lab/image:1.", reason=FaultReason.IMAGE_MISSING, permanent=True)
    runtime.behave(cluster.runs(0, **{f"{step}_fault": fault}))
    job = cluster.submit(retryCount=3)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("FAILED", 255)
    assert cluster.attempts(job)[0].exit["reason"] == "There is no image lab/image:1."
    assert len(cluster.attempts(job)) == 1
    cluster.assert_clean()


def test_a_start_is_refused_for_now_and_tried_again(cluster: Cluster) -> None:
    runtime = cluster.add_node()
    runtime.fail_next("ensure", RuntimeFault("The registry does not answer.", reason=FaultReason.REGISTRY_UNREACHABLE))
    job = cluster.submit()
    cluster.settle()
    assert cluster.job(job).platform_retries == 1
    assert cluster.job(job).state == "RUNNING"
    assert [attempt.exit_code for attempt in cluster.attempts(job)] == [193, None]


def test_the_scheduler_was_off_for_an_hour(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    cluster.finish(job, 7)
    cluster.ahead(3600)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("FAILED", 255)
    assert cluster.task(job).exit["raw_code"] == 7


def test_a_node_that_lost_its_power_for_a_moment_is_not_the_jobs_fault(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    cluster.engines["n1"].power_loss()
    cluster.settle()
    assert (cluster.job(job).platform_retries, cluster.job(job).user_retries) == (1, 0)
    assert cluster.attempts(job)[0].exit_code == 154
    cluster.finish(job)
    cluster.settle()
    assert cluster.job(job).state == "SUCCEEDED"
    cluster.assert_clean()


def test_a_silent_node_is_lost_after_a_while_and_the_job_goes_elsewhere(cluster: Cluster) -> None:
    cluster.add_node("n1")
    job = cluster.submit()
    cluster.settle()
    cluster.add_node("n2")
    cluster.engines["n1"].cut()
    cluster.settle()
    cluster.ahead(50)
    cluster.settle()
    assert cluster.task(job).node == "n1", "given up too early"
    cluster.ahead(20)
    cluster.settle()
    assert [attempt.exit_code for attempt in cluster.attempts(job)] == [-7111, None]
    assert cluster.task(job).node == "n2"
    assert cluster.job(job).platform_retries == 1
    assert Event.objects.filter(kind="node.unreachable", node="n1").count() == 1


def test_a_node_back_with_old_containers_offers_their_gpus_only_once_they_are_gone(cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=1)
    job = cluster.submit(roles=[{"gpuNumber": 1}])
    cluster.settle()
    cluster.engines["n1"].cut()
    cluster.tick()
    cluster.ahead(61)
    cluster.settle()
    assert cluster.job(job).state == "WAITING"
    cluster.ahead(5)
    cluster.engines["n1"].heal()
    cluster.tick()
    assert Node.objects.get().held["gpus"] == ["0"]
    assert cluster.job(job).state == "WAITING", "placed beside the old container"
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    running = cluster.containers(Phase.RUNNING)
    assert [status.name for status in running] == [cluster.task(job).container_name]
    assert Node.objects.get().held == {}


def test_the_result_of_an_older_attempt_is_refused(cluster: Cluster) -> None:
    cluster.add_node("n1")
    job = cluster.submit()
    cluster.settle()
    cluster.engines["n1"].cut()
    cluster.tick()
    cluster.ahead(61)
    cluster.settle()
    old = Task.objects.get(job=job, attempt__number=1)
    cluster.engines["n1"].finish(old.container_name, 0)
    cluster.ahead(5)
    cluster.engines["n1"].heal()
    cluster.settle()
    assert Task.objects.get(pk=old.pk).exit_code == -7111
    assert cluster.job(job).state == "RUNNING"
    assert len(cluster.containers()) == 1


def test_what_was_not_collected_since_its_engine_was_away_is_collected_as_soon_as_that_answers(
    cluster: Cluster,
) -> None:
    """A clean stop of dockerd ends its containers, and is gone before their logs are kept."""
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    cluster.finish(job, 1)
    cluster.tick()
    engine.cut()
    assert cluster.work(lambda order: order[0] == "collect") == 1
    cluster.tick()
    cluster.ahead(1)
    engine.heal()
    cluster.tick()
    cluster.work(lambda order: order[0] == "collect")
    assert cluster.containers() == []


def test_dockerd_restarted(cluster: Cluster) -> None:
    cluster.add_node()
    survivor, dead = cluster.submit(name="a"), cluster.submit(name="b")
    cluster.settle()
    cluster.engines["n1"].cut()
    cluster.tick()
    cluster.finish(dead, 137)
    cluster.engines["n1"].heal()
    cluster.settle()
    assert cluster.job(survivor).state == "RUNNING"
    assert cluster.attempts(dead)[0].exit_code == 137


def test_a_container_is_gone_though_running(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    cluster.engines["n1"].remove(cluster.task(job).container_name)
    cluster.settle()
    assert [attempt.exit_code for attempt in cluster.attempts(job)] == [-7110, None]
    assert cluster.job(job).platform_retries == 1
    assert cluster.task(job).state == "RUNNING"


def test_a_container_is_restarted_by_hand(cluster: Cluster) -> None:
    engine = cluster.add_node(gpus=1)
    job = cluster.submit(roles=[{"gpuNumber": 1}])
    cluster.settle()
    first = cluster.task(job).container_name
    engine.restart(first)
    cluster.settle()
    lost, _ = cluster.attempts(job)
    assert lost.exit_code == -7110 and "started a second time by somebody" in lost.exit["reason"]
    assert cluster.job(job).platform_retries == 1
    assert cluster.task(job).state == "RUNNING"
    assert [each.name for each in cluster.containers()] == [cluster.task(job).container_name] != [first]


def test_stop_is_pressed_twice_or_while_starting(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    services.stop(cluster.owner, job)
    services.stop(cluster.owner, job)
    cluster.tick()
    assert cluster.task(job).state == "STOPPING"
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"
    cluster.assert_clean()


def test_a_stop_in_the_middle_of_a_pull_ends_it(cluster: Cluster) -> None:
    runtime = cluster.add_node()
    runtime.images.clear()
    pulled = (Progress(1, 8, "pulling 1 of 8 GB"), Progress(2, 8, "pulling 2 of 8 GB"))
    runtime.behave(cluster.runs(None, pull=pulled))
    job = cluster.submit()
    cluster.tick()

    def stop_now(name: str, what: str) -> None:
        services.stop(cluster.owner, job)
        cluster.tick()

    runtime.step = stop_now
    cluster.work(only=lambda order: order[0] == "start")
    runtime.step = lives
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"
    assert IMAGE not in runtime.images
    cluster.assert_clean()


def test_an_order_is_delivered_twice(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    twice = cluster.orders()
    for order in [*twice, *twice]:
        tasks.carry_out(*order)
    cluster.settle()
    for order in twice:  # much later, once more
        tasks.carry_out(*order)
    assert len(cluster.containers()) == 1
    cluster.finish(job, 0)
    cluster.settle()
    for order in twice:
        tasks.carry_out(*order)
    cluster.assert_clean()


def _strange(labels: dict[str, str]) -> ContainerRequest:
    return ContainerRequest(name="stranger", image=IMAGE, argv=("x",), labels=labels)


def test_a_stranger_with_our_label_is_removed_after_a_grace_period(cluster: Cluster) -> None:
    cluster.add_node().ensure(_strange({LABEL_TASK: "4711", LABEL_INSTANCE: settings.INSTANCE}))
    cluster.settle()
    assert len(cluster.containers()) == 1
    assert Event.objects.filter(kind="container.stranger", node="n1").count() == 1
    cluster.ahead(31)
    cluster.settle()
    assert cluster.containers() == []


@pytest.mark.parametrize("labels", [{LABEL_INSTANCE: "somebody else"}, {}])
def test_a_container_that_is_not_this_portal_s_is_never_touched(cluster: Cluster, labels: dict[str, str]) -> None:
    cluster.add_node().ensure(_strange({LABEL_TASK: "4711", **labels}))
    cluster.settle()
    cluster.ahead(3600)
    cluster.settle()
    assert len(cluster.containers()) == 1


def test_a_node_taken_off_the_books_ends_its_tasks(cluster: Cluster, admin: User) -> None:
    cluster.add_node("n1")
    job = cluster.submit()
    cluster.settle()
    assert Job.objects.get(pk=job.pk).state == "RUNNING"
    Task.objects.filter(job=job).update(node="no-such-node")
    cluster.settle()
    assert Attempt.objects.get(job=job, number=1).exit_code == -7111


def test_an_end_that_a_full_disk_hides_is_found_by_looking_closer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fakes.host.LOOK_CLOSER", LIMIT)
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    engine.disk_full = True
    cluster.finish(job, 0)
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    monkeypatch.setattr("tests.fakes.host.LOOK_CLOSER", 0.0)
    cluster.settle()
    assert cluster.job(job).state == "SUCCEEDED"
    cluster.assert_clean()


def test_a_stop_finds_out_that_a_full_disk_hides_the_end(cluster: Cluster) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    engine.disk_full = True
    cluster.finish(job, 0)
    services.stop(cluster.owner, job)
    cluster.tick()
    cluster.tick()
    cluster.work()  # the stop finds nothing to stop
    cluster.tick(look=False)  # and its fact is younger than the picture
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"
    cluster.assert_clean()


def test_a_refused_start_is_the_clusters_also_when_its_container_is_seen_going(cluster: Cluster) -> None:
    engine = cluster.add_node(gpus=1)
    engine.gpu_ids = frozenset()
    engine.step = lambda name, what: cluster.tick() if what == "discard" else None  # type: ignore[assignment,return-value]
    job = cluster.submit(roles=[{"gpuNumber": 1}])
    cluster.settle(rounds=3)
    first = cluster.attempts(job)[0]
    assert (first.exit_code, first.exit["exit"]["blame"]) == (-7150, "the cluster")
    assert cluster.job(job).state != "FAILED"


def test_a_log_that_takes_long_is_kept_by_one_worker(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    task = cluster.task(job)
    for n in range(5):
        engine.print(task.container_name, b"line %d\n" % n)
    cluster.finish(job, 0)
    monkeypatch.setattr(claims, "RENEW_EVERY", 0.0)
    asked = engine.calls["logs"]
    slow = FakeLog.__next__

    def next_chunk(self: FakeLog) -> LogChunk:
        chunk = slow(self)
        cluster.ahead(60)
        cluster.tick()
        cluster.work()
        return chunk

    monkeypatch.setattr(FakeLog, "__next__", next_chunk)
    cluster.settle()
    assert engine.calls["logs"] - asked == 2  # one for each stream
    assert cluster.task(job).collected
    cluster.assert_clean()


def test_a_worker_that_lost_its_claim_stops_keeping_the_log(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    task = cluster.task(job)
    engine.print(task.container_name, b"line\n")
    cluster.finish(job, 0)
    cluster.tick()
    monkeypatch.setattr(claims, "RENEW_EVERY", 0.0)
    slow = FakeLog.__next__

    def next_chunk(self: FakeLog) -> LogChunk:
        Task.objects.filter(pk=task.pk).update(claim="another's")
        return slow(self)

    monkeypatch.setattr(FakeLog, "__next__", next_chunk)
    cluster.work()
    assert not cluster.task(job).collected and cluster.task(job).claim == "another's"
    assert len(cluster.containers()) == 1


def test_a_container_removed_by_hand_leaves_at_least_a_reason(cluster: Cluster) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    task = cluster.task(job)
    engine.vanish(task.container_name)
    cluster.settle()
    first = Task.objects.select_related("attempt", "job").get(pk=task.pk)
    archive = find_archive(place_of(first))
    assert archive is not None and archive.reason == log_archive.LOST and first.collected
    assert cluster.job(job).attempt_number == 2
