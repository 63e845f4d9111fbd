"""PUT .../priority and .../position: the place of a waiting job in the queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.models import User
from clusters.models import VirtualCluster
from jobs import order
from jobs.models import Event, Job
from jobs.waiting.queue import turns_of
from tests.builders import make_job

Api = Callable[[User | None], APIClient]
JOB = "/api/v1/user/alice/jobs/train"


@pytest.fixture
def job(alice: User) -> Job:
    return make_job("alice", "train", age=10)


def put(client: APIClient, part: str, body: Any, url: str = JOB) -> tuple[int, dict[str, Any]]:
    answer = client.put(f"{url}/{part}", body, format="json")
    return answer.status_code, answer.json()


def queue() -> list[str]:
    """The waiting jobs as the queue sorts them."""
    jobs = Job.objects.filter(state="WAITING")
    return [one.name for one in sorted(jobs, key=lambda one: (-one.priority, one.queue_time or one.created_at))]


@pytest.mark.parametrize("url", [JOB, "/api/v1/jobs/alice~train"])
def test_an_admin_sets_any_priority(api: Api, admin: User, job: Job, url: str) -> None:
    before = job.changed_at
    assert put(api(admin), "priority", {"value": 7}, url) == (
        202,
        {"message": "set priority of job train to 7 successfully"},
    )
    job.refresh_from_db()
    assert (job.priority, job.changed_at > before) == (7, True), "the scheduler reads the row again"
    event = Event.objects.get(job=job, kind="job.priority")
    assert (event.reason, event.actor) == ("admin changed its priority from 0 to 7.", "admin")


def test_an_owner_may_lower_it_and_raise_it_as_far_as_they_may(api: Api, alice: User, job: Job) -> None:
    assert put(api(alice), "priority", {"value": -5})[0] == put(api(alice), "priority", {"value": 0})[0] == 202
    status, body = put(api(alice), "priority", {"value": 1})
    assert (status, body["code"]) == (403, "ForbiddenUserError")
    assert body["message"].startswith("In virtual cluster default you may set a priority of 0 at most. An admin can")
    assert put(api(alice), "priority", {"value": 0})[0] == 202, "nothing changes"
    assert Event.objects.filter(kind="job.priority").count() == 2


def test_the_same_holds_of_what_the_config_asks_for(api: Api, alice: User) -> None:
    make_job("alice", "train", priority=50)
    assert put(api(alice), "priority", {"value": 51})[0] == 403
    assert put(api(alice), "priority", {"value": 49})[0] == 202


@pytest.mark.parametrize("part", ["priority", "position"])
def test_others_may_not(api: Api, bob: User, job: Job, part: str) -> None:
    make_job("bob", "other")
    body = {"value": -1} if part == "priority" else {"before": "bob~other"}
    assert put(api(bob), part, body)[0] == 403
    assert put(api(None), part, body)[0] == 401
    assert put(api(bob), part, body, "/api/v1/user/alice/jobs/gone")[0] == 404


def test_an_owner_changes_no_order(api: Api, alice: User, job: Job) -> None:
    make_job("alice", "first", age=20)
    status, body = put(api(alice), "position", {"before": "alice~first"})
    assert (status, body["message"]) == (
        403,
        "Only an admin, or the manager of the virtual cluster, changes the order in which jobs start.",
    )


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED", "STOPPING"])
@pytest.mark.parametrize("part", ["priority", "position"])
def test_a_job_that_does_not_wait_has_no_place(api: Api, admin: User, job: Job, state: str, part: str) -> None:
    make_job("bob", "other")
    Job.objects.filter(pk=job.pk).update(**({"execution": "STOP"} if state == "STOPPING" else {"state": state}))
    status, body = put(api(admin), part, {"value": 1} if part == "priority" else {"before": "bob~other"})
    assert (status, body["code"]) == (409, "ConflictError")
    assert body["message"] == "Job train does not wait any more, so it has no place in the queue."


@pytest.mark.parametrize(
    ("part", "body", "message"),
    [
        ("priority", {}, 'child "value" fails because ["value" is required]'),
        ("priority", {"value": 101}, 'child "value" fails because ["value" must be less than or equal to 100]'),
        ("priority", {"value": -101}, 'child "value" fails because ["value" must be larger than or equal to -100]'),
        ("priority", {"value": 1.5}, 'child "value" fails because ["value" must be an integer]'),
        ("priority", {"value": "high"}, 'child "value" fails because ["value" must be a number]'),
        ("priority", {"value": 1, "x": 1}, '"x" is not allowed'),
        ("position", {}, 'child "before" fails because ["before" is required]'),
        ("position", {"before": 5}, 'child "before" fails because ["before" must be a string]'),
        (
            "position",
            {"before": "alice~train"},
            "alice/train and alice/train must be two jobs of one virtual cluster, for each has a queue of its own.",
        ),
    ],
)
def test_a_wrong_body_is_refused(api: Api, admin: User, job: Job, part: str, body: Any, message: str) -> None:
    status, answer = put(api(admin), part, body)
    assert (status, answer["message"]) == (400, message)


def test_an_admin_moves_a_job_before_another(api: Api, admin: User, job: Job) -> None:
    for at, name in enumerate(("first", "second", "third")):
        make_job("bob", name, age=100 - at)
    assert queue() == ["first", "second", "third", "train"]
    assert put(api(admin), "position", {"before": "bob~second"})[0] == 202
    assert queue() == ["first", "train", "second", "third"]
    event = Event.objects.get(job=job, kind="job.moved")
    assert event.reason == "admin moved it before bob/second."
    assert put(api(admin), "position", {"before": "bob~third"})[0] == 202
    assert queue() == ["first", "train", "second", "third"], "it was ahead already"
    assert Event.objects.filter(kind="job.moved").count() == 1


def test_the_scheduler_goes_by_the_same_order(admin: User) -> None:
    jobs = [make_job("bob", f"j{at}", age=100 - at, priority=at % 2) for at in range(6)]
    order.move_before(admin, jobs[5], jobs[1])
    order.move_before(admin, jobs[4], jobs[0])
    order.set_priority(admin, jobs[2], -9)
    turns = turns_of([job.pk for job in jobs])
    names = {job.pk: job.name for job in jobs}
    assert [names[id] for id in sorted(turns, key=lambda id: turns[id].position)] == queue()


def test_many_moves_before_the_same_job_keep_their_order(admin: User) -> None:
    jobs = [make_job("bob", f"j{at}", age=100 - at) for at in range(3)]
    moment = jobs[0].created_at
    for at, one in enumerate(jobs):  # no room between them
        Job.objects.filter(pk=one.pk).update(created_at=moment + timedelta(microseconds=at))
    for at in range(4):
        order.move_before(admin, make_job("alice", f"a{at}"), jobs[2])
    assert queue() == ["j0", "j1", "a0", "a1", "a2", "a3", "j2"]


def test_a_moved_job_gets_the_priority_that_it_lacks(admin: User, job: Job) -> None:
    high, higher = make_job("bob", "high", priority=5, age=50), make_job("bob", "higher", priority=9)
    order.move_before(admin, job, high)
    job.refresh_from_db()
    assert (job.priority, queue()) == (5, ["higher", "train", "high"])
    order.move_before(admin, higher, high)
    higher.refresh_from_db()
    assert higher.queue_time is None, "it was ahead already"


def test_jobs_of_two_virtual_clusters_have_no_common_order(api: Api, admin: User, job: Job) -> None:
    VirtualCluster.objects.create(name="vision")
    make_job("bob", "other", vc="vision")
    assert put(api(admin), "position", {"before": "bob~other"})[0] == 400
    assert put(api(admin), "position", {"before": "bob~gone"})[0] == 404
