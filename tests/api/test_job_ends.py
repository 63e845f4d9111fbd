"""How a job is told to end, by the API: what a config may ask for, until when it has, that it saved, a stop now."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.utils import timezone
from rest_framework.test import APIClient

from base.models import User
from clusters.models import VirtualCluster
from jobs.models import Attempt, Event, Job, Task
from jobs.planning import exits
from tests.builders import make_job, make_node
from tests.submitting import config

Api = Callable[[User | None], APIClient]
JOB = "/api/v1/user/alice/jobs/train"
OF_NOTICE = "signal is {}; it must be SIGUSR1, SIGUSR2, SIGINT, SIGHUP or SIGTERM."
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"graceSeconds": -1}, "graceSeconds is -1; the least is 0."),
    ({"graceSeconds": 601}, "graceSeconds is 601; the most is 600."),
    ({"graceSeconds": [30]}, "graceSeconds is an array; it must be a whole number."),
    ({"notice": {"signal": "SIGKILL"}}, OF_NOTICE.format('"SIGKILL"')),
    ({"notice": {"signal": "usr1"}}, OF_NOTICE.format('"usr1"')),
    ({"notice": ["SIGUSR1"]}, "notice is an array; it must be an object: { ... }."),
    ({"notice": {"signal": "SIGUSR1", "seconds": -1}}, "seconds is -1; the least is 0."),
    (
        {"graceSeconds": 20, "notice": {"signal": "SIGUSR1", "seconds": 21}},
        "notice.seconds is 21, which is more than the 20 seconds of grace.",
    ),
    (
        {"notice": {"signal": "SIGUSR1", "seconds": 31}},
        "notice.seconds is 31, which is more than the 30 seconds of grace that it has where graceSeconds is not given.",
    ),
    (
        {"graceSeconds": 31},
        "Jobs of virtual cluster default have 30 seconds of grace at most, and this one asks for 31."
        " An admin can allow more, up to 600.",
    ),
]


@pytest.fixture
def job(alice: User) -> Job:
    return make_job("alice", "train", state="RUNNING", node=make_node(), tasks=2)


def told(job: Job) -> None:
    """Its first task was told 10 seconds ago that it ends in 120."""
    now, ends = timezone.now(), exits.evicted("Node n1 is being drained.")
    decided = {"reason": ends.sentence, "exit": ends.to_json()}
    Attempt.objects.filter(job=job).update(decided_at=now, exit_code=ends.code, exit=decided, grace=120)
    first = Task.objects.filter(job=job, index=0)
    first.update(state="STOPPING", told="SIGTERM", told_at=now - timedelta(seconds=10))


@pytest.mark.parametrize(("extras", "message"), WRONG, ids=[json.dumps(extras) for extras, _ in WRONG])
def test_a_wrong_value_is_one_sentence_at_every_door(
    api: Api, alice: User, extras: dict[str, Any], message: str
) -> None:
    client, body = api(alice), config("train", extras=extras)
    answer = client.post("/api/v1/jobs/validate", body, format="json").json()
    assert [(each["message"], answer["valid"]) for each in answer["errors"]] == [(message, False)]
    sweep = {**body, "jobName": "s", "extras": {**extras, "sweep": {"list": [{"a": 1}]}}}
    sweep["taskRoles"] = [{**body["taskRoles"][0], "command": "echo $$a$$"}]
    for made in (
        client.post("/api/v1/jobs", body, format="json"),
        client.put(JOB, body, format="json"),
        client.post("/api/v1/sweeps", sweep, format="json"),
    ):
        assert made.status_code in (400, 403), made.json()
    assert not Job.objects.exists()


def test_what_the_virtual_cluster_allows_is_taken(api: Api, alice: User, admin: User) -> None:
    put = {"graceSeconds": 45}
    assert api(admin).put("/api/v1/virtual-clusters/default", put, format="json").status_code == 201
    body = config("train", extras={"graceSeconds": 45, "notice": {"signal": "SIGUSR1", "seconds": 45}})
    assert api(alice).post("/api/v1/jobs", body, format="json").status_code == 201
    assert api(alice).get("/api/v1/virtual-clusters/default").json()["graceSeconds"] == 45


@pytest.mark.parametrize("value", [-1, 601, "much", None, [30]])
def test_what_a_virtual_cluster_may_allow_has_limits(api: Api, admin: User, value: Any) -> None:
    put = {"graceSeconds": value}
    assert api(admin).put("/api/v1/virtual-clusters/default", put, format="json").status_code == 400
    assert not VirtualCluster.objects.exclude(grace=30).exists()


def test_it_says_until_when_a_task_ends_and_why(api: Api, alice: User, job: Job) -> None:
    told(job)
    answer = api(alice).get(JOB).json()
    first, second = answer["taskRoles"]["worker"]["taskStatuses"]
    assert first["endsBy"] - first["toldTime"] == 120_000
    assert (second["endsBy"], second["toldTime"]) == (None, None)
    assert answer["jobStatus"]["endReason"] == "Node n1 is being drained."


def test_why_it_ends_is_for_those_who_may_read_its_details(
    api: Api, bob: User, job: Job, settings: LazySettings
) -> None:
    told(job)
    settings.JOB_PRIVACY = "owner"
    assert "endReason" not in api(bob).get(JOB).json()["jobStatus"]


def test_its_owner_says_that_it_has_saved_and_nobody_else_does(api: Api, alice: User, bob: User, job: Job) -> None:
    assert [api(who).put(f"{JOB}/saved").status_code for who in (None, bob)] == [401, 403]
    assert "savedTime" not in api(alice).get(JOB).json()["jobStatus"]
    before = job.changed_at
    assert api(alice).put(f"{JOB}/saved").status_code == 202
    job.refresh_from_db()
    assert job.saved_at is not None and job.changed_at > before, "the scheduler reads the row again"
    assert api(alice).get(JOB).json()["jobStatus"]["savedTime"] == job.saved_at.timestamp() * 1000 // 1


def test_a_job_that_does_not_run_has_nothing_to_save(api: Api, alice: User) -> None:
    make_job("alice", "train")
    answer = api(alice).put(f"{JOB}/saved")
    assert (answer.status_code, answer.json()["message"]) == (409, "train does not run, so nothing of it can be saved.")


def test_a_stop_now_leaves_no_grace(api: Api, alice: User, bob: User, job: Job) -> None:
    body = {"value": "STOP", "now": True}
    assert api(bob).put(f"{JOB}/executionType", body, format="json").status_code == 403
    told(job)
    for _ in range(2):
        assert api(alice).put(f"{JOB}/executionType", body, format="json").status_code == 202
    job.refresh_from_db()
    assert (job.stops_now, job.execution) == (True, "STOP")
    assert Event.objects.filter(job=job, kind="job.stop_now").count() == 1
    task = api(alice).get(JOB).json()["taskRoles"]["worker"]["taskStatuses"][0]
    assert task["endsBy"] == task["toldTime"]


@pytest.mark.parametrize("now", ["perhaps", 1, None])
def test_now_is_true_or_false(api: Api, alice: User, job: Job, now: Any) -> None:
    assert api(alice).put(f"{JOB}/executionType", {"value": "STOP", "now": now}, format="json").status_code == 400
