"""An answer that has changed, or was not asked for yet, is made without Django's middleware once another one has shown
which headers it has: it is the one that the view gives, with the rights of now."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from base.accounts import tokens
from base.accounts.scopes import Scope
from base.models import User
from jobs.models import Job
from portal.shared.api import repeated
from portal.shared.middleware import Zone
from tests.builders import make_job
from tests.http import ApiClient
from tests.submitting import submitted

Api = Callable[[User | None], APIClient]
ONE, TWO = (f"/api/v1/user/alice/jobs/{name}" for name in ("one", "two"))
LIST = "/api/v1/jobs?limit=10"


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that passed the middleware of pages."""
    paths: list[str] = []
    monkeypatch.setattr(Zone, "process_request", lambda _, request: paths.append(request.path))
    return paths


def two_ended(api: Api, alice: User, **asked: Any) -> APIClient:
    """Two jobs, of which this client has asked for the first."""
    for name in ("one", "two"):
        make_job("alice", name, state="FAILED", exit_code=1)
    client = api(alice)
    assert client.get(ONE, **asked).status_code == 200
    return client


@pytest.mark.parametrize("accepts", ["identity", "gzip"])
def test_the_detail_of_another_job_is_the_one_that_the_view_gives(
    api: Api, alice: User, passed: list[str], accepts: str
) -> None:
    asked: Any = {"headers": {"Accept-Encoding": accepts}}
    client = two_ended(api, alice, **asked)
    with CaptureQueriesContext(connection) as statements:
        made = client.get(TWO, **asked)
    assert (passed, len(statements)) == ([ONE], 3)
    repeated.forget()
    by_view = client.get(TWO, **asked)
    assert passed == [ONE, TWO]
    unpacked = gzip.decompress if accepts == "gzip" else bytes
    assert unpacked(made.content) == unpacked(by_view.content)
    same = [{**answer.headers, "Content-Length": ""} for answer in (made, by_view)]
    assert same[0] == same[1] and int(made["Content-Length"]) == len(made.content)
    assert client.get(TWO, headers={**asked["headers"], "If-None-Match": made["ETag"]}).status_code == 304


@pytest.mark.parametrize("accepts", ["identity", "gzip"])
def test_the_detail_of_a_job_that_waits_has_no_etag_and_is_made_anew_each_time(
    api: Api, alice: User, passed: list[str], accepts: str
) -> None:
    for name in ("one", "two"):
        submitted(alice, name)
    asked: Any = {"headers": {"Accept-Encoding": accepts}}
    api(alice).get(ONE, **asked)
    made = api(alice).get(TWO, **asked)
    assert passed == [ONE]
    Job.objects.filter(name="two").update(user_retries=7)
    unpacked = gzip.decompress if accepts == "gzip" else bytes
    assert json.loads(unpacked(api(alice).get(TWO, **asked).content))["jobStatus"]["retries"] == 7
    assert passed == [ONE] and "ETag" not in made
    Job.objects.filter(name="two").update(user_retries=0)
    repeated.forget()
    by_view = api(alice).get(TWO, **asked)
    assert passed == [ONE, TWO] and unpacked(by_view.content) == unpacked(made.content)
    same = [{**answer.headers, "Content-Length": ""} for answer in (made, by_view)]
    assert same[0] == same[1] and int(made["Content-Length"]) == len(made.content)


def test_a_job_that_waits_again_is_not_answered_as_before(api: Api, alice: User, passed: list[str]) -> None:
    client = two_ended(api, alice)
    tag = client.get(TWO)["ETag"]
    Job.objects.filter(name="two").update(state="WAITING")
    again = api(alice).get(TWO, headers={"If-None-Match": tag})
    assert (again.status_code, again.json()["jobStatus"]["state"], passed) == (200, "WAITING", [ONE])


def test_a_job_that_waits_is_not_told_to_who_may_not_read_it(api: Api, alice: User, settings: Any) -> None:
    submitted(alice, "one")
    assert api(alice).get(ONE).json()["jobStatus"]["waitingReason"]
    settings.JOB_PRIVACY = "owner"
    assert api(User.objects.create(username="ben")).get(ONE).json()["jobStatus"]["waitingReason"] is None
    settings.ANONYMOUS_READ = "none"
    assert api(None).get(ONE).status_code == 401
    assert api(None).get(ONE.replace("one", "none")).status_code == 401
    assert api(alice).get(ONE.replace("one", "none")).status_code == 404


def test_what_cannot_be_made_is_said_by_the_view(api: Api, alice: User) -> None:
    for name in ("one", "two"):
        submitted(alice, name)
    client = api(alice)
    client.raise_request_exception = False
    assert client.get(ONE).status_code == 200
    Job.objects.filter(name="two").update(forecast={"after": 10**30})  # no moment, so its reason has an error
    answer = client.get(TWO)
    assert (answer.status_code, answer.json()["code"]) == (500, "UnknownError")
    assert {"Access-Control-Allow-Origin", "Content-Security-Policy"} <= answer.headers.keys()


def test_a_job_that_has_changed_is_made_anew(api: Api, alice: User, passed: list[str]) -> None:
    two_ended(api, alice)
    first = api(alice).get(TWO)
    Job.objects.filter(name="two").update(user_retries=7)
    again = api(alice).get(TWO, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.json()["jobStatus"]["retries"], passed) == (200, 7, [ONE])


def test_a_list_that_has_changed_is_made_anew(api: Api, alice: User, passed: list[str]) -> None:
    submitted(alice, "one")
    assert len(api(alice).get(LIST).json()) == 1
    submitted(alice, "two")
    assert [job["name"] for job in api(alice).get(LIST).json()] == ["two", "one"]
    assert passed == ["/api/v1/jobs"]


def test_who_may_not_read_it_gets_no_other_detail_either(api: Api, alice: User, bob: User, settings: Any) -> None:
    settings.JOB_PRIVACY, settings.ANONYMOUS_READ = "owner", "none"
    two_ended(api, alice)
    assert api(None).get(TWO).status_code == 401
    assert api(bob).get(TWO).json()["jobStatus"]["appExitCode"] is None
    of_files = ApiClient(headers={"Authorization": f"Bearer {tokens.issue(alice, 60, scopes=Scope.FILES_READ)}"})
    assert of_files.get(TWO).status_code == 403
    assert api(alice).get(TWO).json()["jobStatus"]["appExitCode"] == 1
    client = api(alice)
    tokens.revoke_all(alice)
    assert client.get(TWO).status_code == 401


def test_what_is_not_like_the_others_is_left_to_the_view(api: Api, alice: User, passed: list[str]) -> None:
    two_ended(api, alice)
    assert api(alice).get("/api/v1/user/alice/jobs/none").status_code == 404
    pretty = api(alice).get(TWO, headers={"Accept": "application/json; indent=2"})
    assert pretty.content.startswith(b'{\n  "name"')
    assert api(alice).get(TWO, headers={"Cookie": "zone=UTC"}).json() == json.loads(pretty.content)
    assert [path.rpartition("/")[2] for path in passed] == ["one", "none", "two", "two"]
    again = api(alice).get(ONE, headers={"Accept": "application/json; indent=2"})
    assert again.content.startswith(b'{\n  "name"')
