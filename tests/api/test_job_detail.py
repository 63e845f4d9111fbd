"""GET .../jobs/:j, attempts and events (v1 contract, 3.7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from base.models import User
from clusters.models import Node
from jobs import services
from jobs.attempts import open_attempt
from jobs.models import Attempt, Event, Job, Task
from jobs.planning import exits
from tests.submitting import submitted

Api = Callable[[User | None], APIClient]
STATUS_KEYS = [
    "username",
    "state",
    "subState",
    "executionType",
    "retries",
    "retryDetails",
    "createdTime",
    "completedTime",
    "appId",
    "appProgress",
    "appTrackingUrl",
    "appLaunchedTime",
    "appCompletedTime",
    "appExitCode",
    "appExitSpec",
    "appExitDiagnostics",
    "appExitMessages",
    "appExitTriggerMessage",
    "appExitTriggerTaskRoleName",
    "appExitTriggerTaskIndex",
    "appExitType",
    "virtualCluster",
]
DETAIL = "/api/v1/user/alice/jobs/hello"


def run(job: Job, **task: Any) -> None:
    """As the scheduler leaves a job that runs."""
    Job.objects.filter(pk=job.pk).update(state="RUNNING", started_at=job.created_at)
    Attempt.objects.filter(job=job).update(launched_at=job.created_at + timedelta(seconds=2))
    placed = {"state": "RUNNING", "node": "gpu-01", "address": "10.20.0.6", "gpu_ids": ["0", "2"]}
    Task.objects.filter(job=job).update(**{**placed, "ports": {"tb": [31010, 31011], "ssh": [31002]}, **task})


def fail(job: Job, exit_: exits.Exit, trigger: str = "") -> None:
    kept = {"trigger": trigger, "role": "worker", "index": 0, "reason": exit_.sentence, "exit": exit_.to_json()}
    at = job.created_at + timedelta(seconds=60)
    Attempt.objects.filter(job=job).update(exit_code=exit_.code, decided_at=at, completed_at=at, exit=kept)
    Task.objects.filter(job=job).update(state="FAILED", exit_code=exit_.code, exit=exit_.to_json(), finished_at=at)
    Job.objects.filter(pk=job.pk).update(state="FAILED", exit_code=exit_.code, completed_at=at)


def test_it_shows_a_new_job_with_every_key_and_no_roles(api: Api, alice: User) -> None:
    submitted(alice)
    body = api(None).get(DETAIL).json()
    assert list(body) == ["name", "jobStatus", "taskRoles"]
    assert list(body["jobStatus"]) == [*STATUS_KEYS, "waitingReason"]
    status = {key: body["jobStatus"][key] for key in STATUS_KEYS}
    values = {key for key, value in status.items() if value is not None}
    known = "username state subState executionType retries retryDetails createdTime virtualCluster"
    assert values == set(known.split())
    assert (status["state"], status["subState"], body["taskRoles"]) == ("WAITING", "FRAMEWORK_WAITING", {})
    assert set(body["jobStatus"]["waitingReason"]) == {"summary", "blockers", "position", "ahead"}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (DETAIL, "hello"),
        ("/api/v1/jobs/alice~hello", "alice~hello"),
        ("/api/v1/jobs/hello", "hello"),
        ("/api/v1/user/alice/jobs/hello/", "hello"),
        ("/rest-server/api/v1/user/alice/jobs/hello", "hello"),
    ],
)
def test_it_is_found_in_every_form_and_bears_the_name_asked_for(api: Api, alice: User, url: str, name: str) -> None:
    submitted(alice)
    assert api(None).get(url).json()["name"] == name


def test_it_shows_the_tasks_of_a_running_job(api: Api, alice: User) -> None:
    job = submitted(alice, tasks=2, gpus=2)
    run(job)
    body = api(None).get(DETAIL).json()
    app_id = job.attempts.get().app_id
    status = body["jobStatus"]
    assert (status["state"], status["subState"], status["appId"]) == ("RUNNING", "APPLICATION_RUNNING", app_id)
    assert status["appLaunchedTime"] - status["createdTime"] == 2000
    assert status["appTrackingUrl"] == "http://testserver/jobs/alice/hello"
    assert (status["appProgress"], status["appExitCode"]) == (0.0, None)
    assert "waitingReason" not in status
    worker = body["taskRoles"]["worker"]
    assert worker["taskRoleStatus"] == {"name": "worker"}
    assert worker["taskStatuses"][1] == {
        "taskIndex": 1,
        "taskState": "RUNNING",
        "containerId": f"container_e03_{app_id.removeprefix('application_')}_01_000003",
        "containerIp": "10.20.0.6",
        "containerPorts": {"tb": "31010,31011", "ssh": "31002"},
        "containerGpus": 5,
        "containerLog": "http://testserver/api/v1/user/alice/jobs/hello/taskRoles/worker/1/logs/1/",
        "containerExitCode": None,
        "nodeName": "gpu-01",
        "exitReason": None,
        "note": None,
        "heldUntil": None,
        "toldTime": None,
        "endsBy": None,
    }


def test_it_makes_a_mask_of_gpus_that_have_names(api: Api, alice: User) -> None:
    gpus = [{"id": f"GPU-{letter}", "type": "A100"} for letter in "abcd"]
    Node.objects.create(name="gpu-01", endpoint="unix:///x", address="a", cpus=8, memory_mb=8000, gpus=gpus)
    run(submitted(alice, gpus=2), gpu_ids=["GPU-b", "GPU-d"])
    [task] = api(None).get(DETAIL).json()["taskRoles"]["worker"]["taskStatuses"]
    assert task["containerGpus"] == 0b1010


def test_it_tells_how_a_job_failed(api: Api, alice: User) -> None:
    job = submitted(alice)
    run(job)
    exit_ = exits.Exit(255, "worker-0 ended with exit code 3.", "Read the end of its log.", raw_code=3)
    fail(job, exit_, "[worker]: FailedTaskCount 1 has reached MinFailedTaskCount 1.")
    status = api(None).get(DETAIL).json()["jobStatus"]
    assert (status["state"], status["subState"], status["appProgress"]) == ("FAILED", "FRAMEWORK_COMPLETED", 1.0)
    assert status["completedTime"] - status["createdTime"] == 60_000
    assert (status["appExitCode"], status["appExitType"]) == (255, "UNKNOWN")
    assert status["appExitSpec"]["phrase"] == "CONTAINER_RUNTIME_UNKNOWN_FAILURE"
    assert status["appExitTriggerMessage"] == "[worker]: FailedTaskCount 1 has reached MinFailedTaskCount 1."
    assert (status["appExitTriggerTaskRoleName"], status["appExitTriggerTaskIndex"]) == ("worker", 0)
    assert status["appExitMessages"] == {
        "container": None,
        "runtime": {
            "exitcode": 255,
            "trigger": "originalUserExitCode",
            "reason": "worker-0 ended with exit code 3.",
            "solution": "Read the end of its log.",
            "originalUserExitCode": 3,
        },
        "launcher": None,
    }
    assert "<Raw>[ExitCode]: 3\n" in status["appExitDiagnostics"]
    assert '"containerId" : "container_e03_' in status["appExitDiagnostics"]


def test_it_tells_why_a_job_was_stopped_or_refused(api: Api, alice: User) -> None:
    job = submitted(alice)
    fail(job, exits.job_stopped("alice"))
    status = api(None).get(DETAIL).json()["jobStatus"]
    assert (status["appExitCode"], status["appExitType"]) == (-7351, "NON_TRANSIENT")
    assert status["appExitMessages"] == {"container": None, "runtime": None, "launcher": "Stopped by alice."}


def test_it_keeps_the_shape_of_a_code_that_is_not_in_the_table(api: Api, alice: User) -> None:
    job = submitted(alice)
    fail(job, exits.Exit(-9999, "?"))
    assert api(None).get(DETAIL).json()["jobStatus"]["appExitSpec"]["code"] == -9999


def test_it_does_not_find_what_is_not_there(api: Api, alice: User) -> None:
    services.delete(alice, submitted(alice))
    for url in (DETAIL, "/api/v1/jobs/alice~hello", f"{DETAIL}/config", f"{DETAIL}/attempts", f"{DETAIL}/events"):
        answer = api(None).get(url)
        assert (answer.status_code, answer.json()["code"]) == (404, "NoJobError"), url
    assert api(None).get(DETAIL).json()["message"] == "Job hello is not found."
    assert api(None).get("/api/v1/user/alice/jobs/%00").status_code == 404


def test_it_needs_a_login_where_nobody_may_read_without(api: Api, alice: User, settings: Settings) -> None:
    settings.ANONYMOUS_READ = "none"
    submitted(alice)
    for url in (DETAIL, f"{DETAIL}/attempts", f"{DETAIL}/events", "/api/v1/user/alice/jobs/nope"):
        assert api(None).get(url).status_code == 401
    assert api(alice).get(DETAIL).status_code == 200


def test_it_reads_a_thousand_tasks_with_as_many_queries_as_one(api: Api, alice: User) -> None:
    counts = []
    for name, tasks in (("small", 1), ("large", 1000)):
        run(submitted(alice, name, tasks=tasks))
        with CaptureQueriesContext(connection) as queries:
            body = api(None).get(f"/api/v1/user/alice/jobs/{name}").json()
        assert len(body["taskRoles"]["worker"]["taskStatuses"]) == tasks
        counts.append(len(queries))
    assert counts == [3, 3]


def test_it_keeps_earlier_attempts_and_their_tasks(api: Api, alice: User) -> None:
    job = submitted(alice)
    run(job)
    fail(job, exits.Exit(255, "x", raw_code=1))
    open_attempt(job, 2, job.created_at)
    Job.objects.filter(pk=job.pk).update(attempt_number=2, state="WAITING", exit_code=None, completed_at=None)
    second, first = api(None).get(f"{DETAIL}/attempts").json()
    assert [(a["attempt"], a["isCurrent"], a["appExitCode"]) for a in (second, first)] == [
        (2, True, None),
        (1, False, 255),
    ]
    assert first["appId"] != second["appId"]
    one = api(None).get(f"{DETAIL}/attempts/1").json()
    [task] = one["taskRoles"]["worker"]["taskStatuses"]
    assert task["containerLog"].endswith("/taskRoles/worker/0/logs/1/")
    assert (task["taskState"], task["containerExitCode"]) == ("FAILED", 255)
    assert api(None).get(DETAIL).json()["taskRoles"] == {}
    for number in ("3", "x", "0" * 40):
        assert api(None).get(f"{DETAIL}/attempts/{number}").status_code == 404


def test_it_pages_through_the_events(api: Api, alice: User) -> None:
    job = submitted(alice)
    Event.objects.bulk_create(Event(at=job.created_at, kind="task.state", job=job, reason=str(n)) for n in range(5))
    seen: list[str] = []
    after = 0
    while after is not None:
        page = api(None).get(f"{DETAIL}/events?limit=4&after={after}").json()
        seen += [event["reason"] for event in page["events"]]
        after = page["next"]
    assert seen == ["Submitted by alice.", *map(str, range(5))]
    first = api(None).get(f"{DETAIL}/events").json()["events"][0]
    assert (first["kind"], first["actor"], first["task"]) == ("job.submitted", "alice", None)
    assert api(None).get(f"{DETAIL}/events?after=-1").status_code == 400
