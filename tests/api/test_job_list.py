"""GET /jobs and /user/:u/jobs (v1 contract, 3.6)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from base.accounts import tokens
from base.models import User
from jobs import services
from jobs.models import Job
from tests.helpers import LIMIT
from tests.submitting import config, submitted

Api = Callable[[User | None], APIClient]
KEYS = [
    "name",
    "username",
    "state",
    "subState",
    "executionType",
    "retries",
    "retryDetails",
    "createdTime",
    "completedTime",
    "appExitCode",
    "virtualCluster",
    "totalGpuNumber",
    "totalTaskNumber",
    "totalTaskRoleNumber",
]


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200
    return [job["name"] for job in answer.json()]


def test_the_code_of_the_command_itself_is_told_to_who_asks(alice: User, api: Api) -> None:
    submitted(alice, "ended")
    job = Job.objects.get(name="ended")
    Job.objects.update(state="FAILED", exit_code=255)
    job.attempts.update(exit={"exit": {"raw_code": 3}})
    (line,) = api(alice).get("/api/v1/jobs", {"with": "userExitCode"}).json()
    assert (line["appExitCode"], line["userExitCode"]) == (255, 3)
    for asked in ({}, {"limit": 1}, {"with": "else"}):
        (line,) = api(alice).get("/api/v1/jobs", asked).json()
        assert list(line) == KEYS
    job.attempts.update(exit={})
    assert api(alice).get("/api/v1/jobs", {"with": "userExitCode", "limit": 5}).json()[0]["userExitCode"] is None


def add_rows(number: int) -> None:
    now = timezone.now()
    Job.objects.bulk_create(
        Job(
            username="alice",
            name=f"job{n}",
            vc="default",
            config="{}",
            spec={},
            state="SUCCEEDED",
            total_tasks=1,
            total_roles=1,
            total_gpus=0,
            created_at=now - timedelta(seconds=n // 3),
            queued_at=now,
            changed_at=now,
        )
        for n in range(number)
    )


def test_it_answers_an_empty_list(api: Api) -> None:
    assert api(None).get("/api/v1/jobs").json() == []


def test_it_lists_a_job_with_the_keys_of_v1(api: Api, alice: User) -> None:
    job = submitted(alice, "mnist-a1", tasks=3, gpus=2)
    Job.objects.filter(pk=job.pk).update(user_retries=1, platform_retries=2, resource_retries=4)
    [item] = api(None).get("/api/v1/jobs").json()
    assert list(item) == KEYS
    assert item == {
        "name": "mnist-a1",
        "username": "alice",
        "state": "WAITING",
        "subState": "FRAMEWORK_WAITING",
        "executionType": "START",
        "retries": 7,
        "retryDetails": {"user": 1, "platform": 2, "resource": 4},
        "createdTime": item["createdTime"],
        "completedTime": None,
        "appExitCode": None,
        "virtualCluster": "default",
        "totalGpuNumber": 6,
        "totalTaskNumber": 3,
        "totalTaskRoleNumber": 1,
    }
    assert abs(item["createdTime"] / 1000 - timezone.now().timestamp()) < LIMIT


def test_it_lists_the_newest_first_and_the_jobs_of_one_user(api: Api, alice: User, bob: User) -> None:
    submitted(alice, "a")
    submitted(bob, "b")
    submitted(alice, "c")
    assert names(api(None).get("/api/v1/jobs")) == ["c", "b", "a"]
    assert names(api(None).get("/api/v1/user/alice/jobs?username=bob")) == ["c", "a"]
    assert names(api(None).get("/rest-server/api/v1/jobs/?username=bob")) == ["b"]
    assert names(api(None).get("/api/v1/jobs?username=")) == ["c", "b", "a"]


def test_a_job_made_without_a_user_in_the_address_is_marked_legacy(api: Api, alice: User, bob: User) -> None:
    submitted(bob, "a")
    made = {"/api/v1/jobs": "a", "/rest-server/api/v1/user/alice/jobs": "b"}
    for path, name in made.items():
        answer = api(alice).post(path, config(name), format="json")
        assert answer["Location"] == f"http://testserver{path}/{name}"
    for path in ("/api/v1/jobs/c", "/api/v2/user/alice/jobs/d", "/api/v1/user/alice/jobs/e"):
        assert api(alice).put(path, config("x"), format="json")["Location"] == f"http://testserver{path}"
    api(alice).put("/api/job/f", config("x"), format="json")
    listed = {job["name"]: job.get("legacy") for job in api(alice).get("/api/v1/user/alice/jobs").json()}
    assert listed == {"a": True, "b": None, "c": True, "d": None, "e": None, "f": True}
    assert api(None).get("/api/v1/jobs/a").json()["jobStatus"]["username"] == "alice"


def test_it_filters_and_pages(api: Api, alice: User) -> None:
    for name in "abcd":
        submitted(alice, name)
    services.stop(alice, Job.objects.get(name="b"))
    get = api(None).get
    assert names(get("/api/v1/jobs?limit=2&offset=1")) == ["c", "b"]
    assert names(get("/api/v1/jobs?limit=0")) == []
    assert names(get("/api/v1/jobs?offset=3")) == ["a"]
    assert names(get("/api/v1/jobs?state=stopping")) == ["b"]
    assert names(get("/api/v1/jobs?state=FAILED")) == []
    assert names(get("/api/v1/jobs?keyword=EF&vc=default")) == list("dcba")
    assert names(get("/api/v1/jobs?keyword=zz")) == []


def test_it_takes_those_of_a_time_and_sorts(api: Api, alice: User) -> None:
    for hours, name in ((1, "new"), (30, "old"), (200, "older")):
        submitted(alice, name)
        at = timezone.now() - timedelta(hours=hours)
        Job.objects.filter(name=name).update(created_at=at, completed_at=at + timedelta(minutes=5))
    submitted(alice, "waits")
    get = api(None).get
    assert names(get("/api/v1/jobs?since=24h")) == ["waits", "new"]
    assert names(get(f"/api/v1/jobs?since={timezone.now() - timedelta(days=7):%Y-%m-%d}")) == ["waits", "new", "old"]
    assert names(get("/api/v1/jobs?sort=oldest")) == ["older", "old", "new", "waits"]
    assert names(get("/api/v1/jobs?sort=ended&limit=2")) == ["new", "old"]


@pytest.mark.parametrize(
    "query",
    [
        *("limit=-1", "limit=x", "offset=1e3", "limit=99999999999", "state=x", "keyword=%00", "since=x", "sort=x"),
        f"keyword={'a' * 60_000}",  # more than SQLite searches for
    ],
)
def test_it_refuses_a_query_that_makes_no_sense(api: Api, query: str) -> None:
    answer = api(None).get(f"/api/v1/jobs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


def test_it_answers_json_whatever_is_accepted_and_takes_a_body(api: Api) -> None:
    client = api(None)
    assert client.get("/api/v1/jobs", HTTP_ACCEPT="text/yaml").json() == []
    assert client.generic("GET", "/api/v1/jobs", "{}", content_type="application/json").json() == []


def test_it_streams_a_long_list_whole(api: Api) -> None:
    add_rows(2500)
    answer = api(None).get("/api/v1/jobs")
    assert answer.streaming
    listed = json.loads(b"".join(answer.streaming_content))
    whole = api(None).get("/api/v1/jobs?limit=9999").json()
    assert listed == whole
    assert len({job["name"] for job in listed}) == 2500


def test_it_reads_a_page_with_as_many_queries_for_1_job_as_for_100(api: Api) -> None:
    add_rows(100)
    client = api(None)
    for limit in (1, 100):
        with CaptureQueriesContext(connection) as queries:
            assert len(client.get(f"/api/v1/jobs?limit={limit}").json()) == limit
        assert len(queries) == 2


def test_it_asks_for_a_login_only_where_nobody_may_read_without(api: Api, alice: User, settings: Settings) -> None:
    settings.ANONYMOUS_READ = "none"
    assert api(None).get("/api/v1/jobs").status_code == 401
    assert api(alice).get("/api/v1/jobs").status_code == 200


def test_it_lets_a_bad_token_read_what_a_guest_may_and_says_so(api: Api, alice: User) -> None:
    revoked = f"Bearer {tokens.issue(alice, 600)}"
    tokens.revoke_all(alice)
    good = f"Bearer {tokens.issue(alice, 600)}"
    for header in ("", revoked, "", "Bearer x.y.z", good, revoked, "Basic YTpi"):  # guests share an answer that is kept
        client = api(None)
        client.credentials(**{"HTTP_AUTHORIZATION": header} if header else {})
        answer = client.get("/api/v1/jobs")
        says = 'Bearer error="invalid_token"' if header not in ("", good, "Basic YTpi") else None
        assert (answer.status_code, answer.get("WWW-Authenticate")) == (200, says), header
    client.credentials(HTTP_AUTHORIZATION=revoked)
    answer = client.post("/api/v1/user/alice/jobs", "{}", content_type="application/json")
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')
