"""Containers that are kept for debugging: told, counted, released, stopped, and whatever may happen meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from base.core.errors import Forbidden
from base.models import User
from clusters.engines.watch import Watched, Watchers
from clusters.nodes.services import set_node_status
from jobs import services
from jobs.models import Event, Job
from portal.nodes.drain import drain_page
from tests.cluster import Cluster
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.django_db


def held(cluster: Cluster, code: int = 3) -> Job:
    """A job whose only task is kept, as the scheduler has seen."""
    cluster.add_node()
    job = cluster.submit(jobEnvs={"isDebug": True})
    cluster.tick()
    cluster.work()
    cluster.tick()
    task = cluster.task(job)
    cluster.engines[task.node].hold(task.container_name, code)
    cluster.tick()
    return job


def test_a_kept_task_runs_on_and_holds_what_it_holds(cluster: Cluster) -> None:
    job = held(cluster)
    task = cluster.task(job)
    assert (task.state, cluster.job(job).state) == ("RUNNING", "RUNNING")
    assert task.held_at is not None and cluster.allocated() == 1
    cluster.tick()
    assert cluster.kinds(job).count("task.held") == 1, "it is said once"
    said = Event.objects.get(kind="task.held").reason
    assert said == "The command of worker-0 ended with exit code 3. Its container is kept for debugging."


@pytest.mark.django_db(transaction=True)  # the watcher has a connection of its own
def test_a_new_hold_wakes_the_scheduler(cluster: Cluster) -> None:
    runtime = cluster.add_node()
    job = cluster.submit(jobEnvs={"isDebug": True})
    cluster.tick()
    cluster.work()
    cluster.tick()
    woken = threading.Event()
    watch = Watchers(woken.set)
    watch.keep_up({"n1": Watched("fake://n1")})
    try:
        until(lambda: "n1" in watch.looks(), 10, what="the first look")
        until(woken.is_set, 10, what="it tells of the first look")
        woken.clear()
        runtime.hold(cluster.task(job).container_name)
        assert woken.wait(LIMIT)
    finally:
        watch.stop()


def test_only_json_true_asks_for_it(cluster: Cluster) -> None:
    runtime = cluster.add_node()
    for name, value in (("a", "true"), ("b", 1), ("c", False)):
        job = cluster.submit(name=name, jobEnvs={"isDebug": value})
        cluster.tick()
        cluster.work()
        assert runtime.request_of(cluster.task(job).container_name).hold_file == ""


def test_a_released_task_ends_with_the_code_of_its_command(cluster: Cluster) -> None:
    job = held(cluster, 3)
    assert services.release(cluster.owner, job) == 1
    assert services.release(cluster.owner, job) == 0, "twice is once"
    cluster.tick()
    cluster.work()
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).exit_code) == ("FAILED", 255)
    assert cluster.task(job).exit["raw_code"] == 3
    cluster.assert_clean()


def test_a_lost_release_is_ordered_again(cluster: Cluster) -> None:
    job = held(cluster)
    services.release(cluster.owner, job)
    cluster.tick()
    cluster.lose_orders()
    cluster.tick()
    assert cluster.orders() == []
    cluster.ahead(16)
    cluster.tick()
    cluster.work()
    cluster.settle()
    assert cluster.job(job).state == "FAILED"


def test_a_new_scheduler_says_nothing_twice(cluster: Cluster) -> None:
    job = held(cluster)
    since = cluster.task(job).held_at
    cluster.scheduler = cluster.new_scheduler()
    assert cluster.scheduler.lease.try_take()
    cluster.tick()
    assert cluster.task(job).held_at == since
    assert Event.objects.filter(kind="task.held").count() == 1


def test_a_stop_ends_it_as_any_stop(cluster: Cluster) -> None:
    from jobs import services

    job = held(cluster)
    services.stop(cluster.owner, job)
    cluster.settle()
    assert (cluster.job(job).state, cluster.task(job).state) == ("STOPPED", "STOPPED")
    cluster.assert_clean()


def test_its_time_is_up_by_itself(cluster: Cluster) -> None:
    job = held(cluster)
    cluster.finish(job, 3)
    cluster.settle()
    assert cluster.job(job).state == "FAILED"


def is_judged_by_its_command(cluster: Cluster, job: Job, code: int = 3) -> bool:
    task = cluster.task(job)
    ended = cluster.job(job).state, cluster.job(job).exit_code, task.state, task.exit["raw_code"]
    return ended == ("FAILED", 255, "FAILED", code) and cluster.job(job).platform_retries == 0


def test_a_node_that_falls_silent_meanwhile_ends_it(cluster: Cluster) -> None:
    job = held(cluster)
    cluster.engines["n1"].cut()
    cluster.tick()
    assert cluster.task(job).state == "RUNNING"
    cluster.ahead(61)
    cluster.tick()
    assert is_judged_by_its_command(cluster, job)


def test_a_container_that_is_gone_ends_it(cluster: Cluster) -> None:
    job = held(cluster)
    cluster.engines["n1"].remove(cluster.task(job).container_name)
    cluster.settle()
    assert is_judged_by_its_command(cluster, job)


@pytest.mark.parametrize("code", [137, 143])
def test_a_container_that_is_ended_from_outside_ends_it(cluster: Cluster, code: int) -> None:
    job = held(cluster)
    cluster.finish(job, code)
    cluster.settle()
    assert is_judged_by_its_command(cluster, job)


def test_a_drain_ends_it_and_no_retry_is_added(cluster: Cluster, admin: User) -> None:
    job = held(cluster)
    assert drain_page("n1", admin)["kept"] == 1
    set_node_status(admin, "n1", {"nodeStatus": "draining"})
    cluster.settle()
    assert is_judged_by_its_command(cluster, job) and cluster.job(job).attempt_number == 1
    assert "job.evicted" not in cluster.kinds(job)
    said = Event.objects.get(kind="job.released").reason
    assert said == "Node n1 is being drained. What was kept for debugging ends."
    cluster.assert_clean()


def test_a_release_that_a_drain_asked_for_and_is_lost_is_ordered_again(cluster: Cluster, admin: User) -> None:
    job = held(cluster)
    set_node_status(admin, "n1", {"nodeStatus": "draining"})
    cluster.tick()
    cluster.lose_orders()
    cluster.ahead(16)
    cluster.settle()
    assert is_judged_by_its_command(cluster, job)
    assert Event.objects.filter(kind="job.released").count() == 1


def test_the_other_tasks_of_a_job_are_evicted_if_what_was_kept_does_not_decide(cluster: Cluster, admin: User) -> None:
    cluster.add_node()
    job = cluster.submit(jobEnvs={"isDebug": True}, roles=[{"taskNumber": 2, "minFailedTaskCount": 2}])
    cluster.tick()
    cluster.work()
    cluster.tick()
    cluster.engines["n1"].hold(cluster.task(job, 1).container_name, 3)
    cluster.tick()
    set_node_status(admin, "n1", {"nodeStatus": "draining"})
    cluster.settle()
    assert cluster.kinds(job).count("job.evicted") == 1 and cluster.job(job).platform_retries == 1


def test_others_may_not_release_it(cluster: Cluster, bob: User, api: Callable[[User | None], APIClient]) -> None:
    job = held(cluster)
    with pytest.raises(Forbidden):
        services.release(bob, job)
    url = f"/api/v1/user/{job.username}/jobs/{job.name}/release"
    assert api(bob).put(url).status_code == 403
    assert api(None).put(url).status_code == 401
    answer = api(cluster.owner).put(url)
    assert (answer.status_code, answer.json()) == (202, {"released": 1})


def test_the_api_and_the_page_tell_until_when(
    cluster: Cluster, api: Callable[[User | None], APIClient], browse: Callable[[User | None], Client]
) -> None:
    job = held(cluster)
    found = json.loads(api(cluster.owner).get(f"/api/v1/user/{job.username}/jobs/{job.name}").content)
    (status,) = found["taskRoles"]["worker"]["taskStatuses"]
    assert status["heldUntil"] > 0 and status["taskState"] == "RUNNING"
    browser = browse(cluster.owner)
    page = browser.get(f"/jobs/{job.username}/{job.name}").content.decode()
    assert "kept for debugging and holds its resources; it ends" in page and "Release" in page
    assert "kept for debugging, ends" in page, "in the table of the tasks too"
    assert "Release" in browser.get(f"/jobs/{job.username}/{job.name}/release").content.decode()
    assert browser.post(f"/jobs/{job.username}/{job.name}/release").status_code == 302
    assert "kept for debugging and holds" not in browser.get(f"/jobs/{job.username}/{job.name}").content.decode()
