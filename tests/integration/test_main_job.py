"""A job from submission to its end, pass by pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from base.models import User
from clusters.engines.runtime import Phase
from clusters.models import Node
from jobs import services
from jobs.models import Event, Job
from jobs.waiting.why import turn_of, waiting_reason
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db


def kinds_of(job: Job) -> list[str]:
    """The kinds of what keeps it waiting."""
    turn = turn_of(job)
    assert turn is not None
    return [blocker.kind for blocker in turn.blockers]


def test_it_runs_a_job_and_leaves_nothing_behind(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    assert cluster.job(job).state == "RUNNING"
    assert cluster.task(job).state == "STARTING"
    cluster.work()
    cluster.tick()
    assert cluster.task(job).state == "RUNNING"
    cluster.finish(job, 0)
    cluster.settle()
    done = cluster.job(job)
    assert (done.state, done.exit_code) == ("SUCCEEDED", 0)
    assert done.completed_at is not None
    cluster.assert_clean()
    assert cluster.kinds(job)[:2] == ["job.submitted", "job.placed"]
    assert Event.objects.get(kind="job.placed").reason == f"The task was placed on {Node.objects.get().name}."


def test_it_settles_a_container_that_began_and_ended_between_two_passes(cluster: Cluster) -> None:
    cluster.add_node().behave(cluster.runs(0))
    job = cluster.submit()
    cluster.settle()
    assert cluster.job(job).state == "SUCCEEDED"
    cluster.assert_clean()


def test_it_keeps_the_program_s_own_exit_code_beside_255(cluster: Cluster) -> None:
    cluster.add_node().behave(cluster.runs(3))
    job = cluster.submit()
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("FAILED", 255)
    assert cluster.task(job).exit["raw_code"] == 3
    assert cluster.attempts(job)[0].exit["trigger"] == "[worker]: FailedTaskCount 1 has reached MinFailedTaskCount 1."


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (2, 3)])
def test_it_retries_a_failing_job_exactly_retry_count_times(cluster: Cluster, retries: int, attempts: int) -> None:
    cluster.add_node().behave(cluster.runs(3))
    job = cluster.submit(retryCount=retries)
    for _ in range(attempts):
        cluster.settle()
        cluster.ahead(120)
    assert [attempt.exit_code for attempt in cluster.attempts(job)] == [255] * attempts
    assert cluster.job(job).state == "FAILED"
    assert cluster.job(job).user_retries == retries
    assert len({attempt.app_id for attempt in cluster.attempts(job)}) == attempts
    cluster.assert_clean()


def test_out_of_memory_is_196_and_not_retried(cluster: Cluster) -> None:
    cluster.add_node().behave(cluster.runs(137, oom=True))
    job = cluster.submit(retryCount=5)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("FAILED", 196)
    (attempt,) = cluster.attempts(job)
    assert attempt.exit["next"] == "Not tried again: it would end the same way."
    assert attempt.exit["exit"]["oom"] is True


def test_it_retries_for_ever_also_after_success_with_minus_two(cluster: Cluster) -> None:
    cluster.add_node().behave(cluster.runs(0))
    job = cluster.submit(retryCount=-2)
    cluster.settle(30)
    assert len(cluster.attempts(job)) > 1
    services.stop(cluster.owner, job)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("STOPPED", -7351)
    cluster.assert_clean()


def test_stop_ends_every_task_and_says_so(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit(roles=[{"taskNumber": 3}])
    cluster.settle()
    services.stop(cluster.owner, job)
    services.stop(cluster.owner, job)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("STOPPED", -7351)
    assert [(task.state, task.exit_code) for task in cluster.tasks(job)] == [("STOPPED", -7400)] * 3
    cluster.assert_clean()


def test_stop_of_a_waiting_job_needs_no_node(cluster: Cluster) -> None:
    job = cluster.submit()
    cluster.tick()
    services.stop(cluster.owner, job)
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"
    assert cluster.task(job).state == "STOPPED"


def test_one_failing_task_ends_the_others(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit(roles=[{"name": "ps"}, {"name": "worker", "taskNumber": 2}])
    cluster.settle()
    cluster.finish(job, 1, at=1)
    cluster.settle()
    assert [task.state for task in cluster.tasks(job)] == ["STOPPED", "FAILED", "STOPPED"]
    assert cluster.job(job).state == "FAILED"
    cluster.assert_clean()


def test_min_succeeded_ends_the_parameter_server(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit(roles=[{"name": "ps"}, {"name": "worker", "taskNumber": 2, "minSucceededTaskCount": 2}])
    cluster.settle()
    cluster.finish(job, 0, at=1)
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    cluster.finish(job, 0, at=2)
    cluster.settle()
    assert [task.state for task in cluster.tasks(job)] == ["STOPPED", "SUCCEEDED", "SUCCEEDED"]
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("SUCCEEDED", 0)


def test_kill_all_counts_tasks_of_any_role(cluster: Cluster) -> None:
    cluster.add_node()
    roles = [{"name": "ps"}, {"name": "worker", "taskNumber": 2}]
    job = cluster.submit(roles=roles, killAllOnCompletedTaskNumber=1)
    cluster.settle()
    cluster.finish(job, 0, at=2)
    cluster.settle()
    assert [task.state for task in cluster.tasks(job)] == ["STOPPED", "STOPPED", "SUCCEEDED"]
    assert cluster.job(job).state == "SUCCEEDED"


def test_a_gang_starts_whole_or_not_at_all(cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=2)
    cluster.add_node("n2", gpus=1)
    first = cluster.submit(name="first", roles=[{"gpuNumber": 1, "taskNumber": 1}])
    cluster.settle()
    gang = cluster.submit(name="gang", roles=[{"gpuNumber": 1, "taskNumber": 3}])
    cluster.settle()
    assert cluster.job(gang).state == "WAITING"
    assert {task.state for task in cluster.tasks(gang)} == {"WAITING"}
    assert kinds_of(gang) == ["gang"]
    cluster.finish(first, 0)
    cluster.settle()
    assert cluster.job(gang).state == "RUNNING"
    held = [(task.node, gpu) for task in cluster.tasks(gang) for gpu in task.gpu_ids]
    assert len(set(held)) == 3


def test_a_virtual_cluster_starts_jobs_in_order(cluster: Cluster) -> None:
    cluster.add_node(cpus=2)
    running = cluster.submit(name="a")
    cluster.settle()
    large = cluster.submit(name="b", roles=[{"cpuNumber": 2}])
    small = cluster.submit(name="c")
    cluster.settle()
    assert cluster.job(large).state == cluster.job(small).state == "WAITING"
    assert kinds_of(large) == ["cpu"]
    assert kinds_of(small) == ["reserved", "queue"]
    cluster.finish(running, 0)
    cluster.settle()
    assert cluster.job(large).state == "RUNNING"
    assert cluster.job(small).state == "WAITING"


def test_a_job_whose_node_is_away_does_not_hold_the_queue(cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=1)
    cluster.add_node("n2")
    cluster.engines["n1"].cut()
    wants_gpu = cluster.submit(name="a", roles=[{"gpuNumber": 1}])
    plain = cluster.submit(name="b")
    cluster.tick()
    cluster.settle()
    assert cluster.job(wants_gpu).state == "WAITING"
    assert cluster.job(plain).state == "RUNNING"
    reason = waiting_reason(wants_gpu, turn_of(wants_gpu))
    assert reason is not None
    assert {blocker["kind"] for blocker in reason["blockers"]} == {"gpus", "nodes"}


def test_what_no_node_could_ever_run_fails_at_once_and_names_the_nearest(cluster: Cluster) -> None:
    cluster.add_node("small", gpus=1)
    cluster.add_node("big", gpus=4)
    job = cluster.submit(roles=[{"gpuNumber": 8}])
    cluster.tick()
    failed = cluster.job(job)
    assert (failed.state, failed.exit_code) == ("FAILED", -7251)
    assert "big" in cluster.attempts(job)[0].exit["reason"]
    assert cluster.job(job).attempt_number == 1


def test_without_any_node_a_job_waits_and_says_so(cluster: Cluster) -> None:
    job = cluster.submit()
    cluster.settle()
    assert cluster.job(job).state == "WAITING"
    reason = waiting_reason(cluster.job(job), turn_of(job))
    assert reason is not None
    assert "No node is registered" in reason["summary"]


def test_fixed_ports_keep_two_tasks_off_one_node(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2")
    ports = [{"label": "tb", "beginAt": 36006, "portNumber": 1}]
    job = cluster.submit(roles=[{"taskNumber": 2, "portList": ports}])
    cluster.settle()
    assert {task.node for task in cluster.tasks(job)} == {"n1", "n2"}
    assert all(task.ports["tb"] == [36006] for task in cluster.tasks(job))
    assert all(set(task.ports) == {"tb", "http", "ssh"} for task in cluster.tasks(job))


def test_a_deleted_job_stops_and_then_disappears(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    services.delete(cluster.owner, job)
    again = cluster.submit()
    cluster.settle()
    assert not Job.objects.filter(pk=job.pk).exists()
    assert cluster.job(again).state == "RUNNING"
    assert len(cluster.containers(Phase.RUNNING)) == 1


def test_a_stop_reaches_a_job_that_waits_for_its_retry(cluster: Cluster) -> None:
    cluster.add_node().behave(cluster.runs(3))
    job = cluster.submit(retryCount=9)
    cluster.settle()
    assert cluster.job(job).not_before is not None
    services.stop(cluster.owner, job)
    cluster.settle()
    assert cluster.job(job).state == "STOPPED"


def test_a_job_whose_planning_raises_is_parked_and_the_others_go_on(cluster: Cluster) -> None:
    cluster.add_node()
    bad, good = cluster.submit(name="bad"), cluster.submit(name="good")
    Job.objects.filter(pk=bad.pk).update(attempt_number=7)
    cluster.settle()
    assert cluster.job(good).state == "RUNNING"
    assert cluster.job(bad).state == "WAITING"
    assert "job.parked" in cluster.kinds(bad)
    assert kinds_of(cluster.job(bad)) == ["parked"]


def test_it_starts_at_most_twice_the_cores_of_a_node_at_once(cluster: Cluster) -> None:
    cluster.add_node(cpus=2)
    Job.objects.all()
    job = cluster.submit(roles=[{"taskNumber": 2}])
    cluster.engines["n1"].behave(cluster.runs(None))
    cluster.tick()
    assert len(cluster.orders()) == 2
    cluster.work()
    cluster.settle()
    assert {task.state for task in cluster.tasks(job)} == {"RUNNING"}


def test_the_page_tells_what_the_scheduler_found(cluster: Cluster, browse: Callable[[User], Client]) -> None:
    cluster.add_node().behave(cluster.runs(137, oom=True))
    cluster.submit(retryCount=5)
    cluster.settle()
    page = browse(cluster.owner).get("/jobs/alice/j1").content.decode()
    assert "worker-0 ran out of memory" in page
    assert "Certain: the engine reports OOMKilled." in page
    assert "It would end the same way." in page
    assert "SIGKILL" in page
