"""CORS, compression, marks (ETag), HEAD, bodies where none belongs, and the raw address in NoApiError."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from base.accounts import tokens
from base.models import User
from jobs.models import Job
from portal.shared.api import repeated
from portal.shared.api.answers import no_api
from portal.shared.middleware import Zone
from tests.builders import make_job
from tests.conftest import PASSWORD
from tests.http import Client
from tests.submitting import config, submitted

Api = Callable[[User | None], APIClient]
ORIGIN = {"Origin": "http://plugin.example"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("get", "/api/v1/jobs", 200),
        ("get", "/rest-server/api/v1/jobs", 200),
        ("get", "/api/v1/", 200),
        ("get", "/healthz", 200),
        ("get", "/api/v1/xx", 404),
        ("get", "/api/v1/jobs/a~b", 404),
        ("post", "/api/v1/jobs", 401),
        ("post", "/api/v1/token", 400),
    ],
)
def test_it_lets_every_origin_read_every_answer(db: None, method: str, path: str, status: int) -> None:
    answer = getattr(Client(headers=ORIGIN), method)(path)
    assert answer.status_code == status
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer


def test_it_answers_a_preflight_before_anything_else(db: None) -> None:
    asked = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization,content-type"}
    for path in ("/api/v1/user/alice/jobs/x", "/rest-server/api/v1/jobs", "/api/v1/token", "/api/v1/nothing"):
        answer = Client(headers={**ORIGIN, **asked}).options(path)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer["Access-Control-Allow-Origin"] == "*"
        assert "PUT" in answer["Access-Control-Allow-Methods"]
        assert answer["Access-Control-Allow-Headers"] == "authorization,content-type"


def test_it_says_nothing_of_origins_on_pages(db: None) -> None:
    assert "Access-Control-Allow-Origin" not in Client(headers=ORIGIN).get("/login")


def test_it_compresses_json_of_some_size_for_who_takes_it(api: Api, alice: User) -> None:
    for number in range(5):
        submitted(alice, f"job{number}")
    plain = api(None).get("/api/v1/jobs")
    packed = api(None).get("/api/v1/jobs", headers={"Accept-Encoding": "br, gzip;q=0.9"})
    refused = api(None).get("/api/v1/jobs", headers={"Accept-Encoding": "gzip;q=0"})
    assert packed["Content-Encoding"] == "gzip" and int(packed["Content-Length"]) == len(packed.content)
    assert json.loads(gzip.decompress(packed.content)) == plain.json() == refused.json()
    assert "Content-Encoding" not in plain and "Accept-Encoding" in plain["Vary"]
    short = api(None).get("/api/v1/xx", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in short


def test_it_sends_a_list_once_and_then_says_that_nothing_changed(api: Api, alice: User) -> None:
    client = api(alice)
    one = submitted(alice, "one")
    first = client.get("/api/v1/jobs")
    assert first["ETag"].startswith('W/"')
    again = client.get("/api/v1/jobs", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert again["Access-Control-Allow-Origin"] == "*"
    other = client.get("/api/v1/jobs?username=bob", headers={"If-None-Match": first["ETag"]})
    assert other.status_code == 200
    submitted(alice, "two")
    second = client.get("/api/v1/jobs", headers={"If-None-Match": first["ETag"]})
    assert (second.status_code, len(second.json())) == (200, 2)
    client.delete("/api/v1/user/alice/jobs/two")
    Job.objects.filter(name="two").delete()  # purged, with its events
    assert one.pk
    third = client.get("/api/v1/jobs", headers={"If-None-Match": first["ETag"]})
    assert (third.status_code, len(third.json())) == (200, 1)


def test_what_did_not_change_is_sent_again_to_anybody_without_reading_it_again(
    api: Api, alice: User, bob: User
) -> None:
    submitted(alice, "one")
    first = api(alice).get("/api/v1/jobs")
    with CaptureQueriesContext(connection) as queries:
        again = api(bob).get("/api/v1/jobs")
    assert (again.content, again.headers) == (first.content, first.headers)
    assert not [query for query in queries if '"jobs_job"' in query["sql"]]
    submitted(alice, "two")
    assert [job["name"] for job in api(bob).get("/api/v1/jobs").json()] == ["two", "one"]


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/user/alice/jobs/one"])
def test_what_did_not_change_is_not_sent_again_to_whom_may_not_read_it_any_more(
    api: Api, alice: User, settings: Any, path: str
) -> None:
    settings.ANONYMOUS_READ = "none"
    make_job("alice", "one", state="SUCCEEDED")
    client = api(alice)
    first, again = client.get(path), client.get(path)
    assert (again.status_code, again.content, again.headers) == (200, first.content, first.headers)
    assert api(None).get(path).status_code == 401
    tokens.revoke_all(alice)
    assert client.get(path).status_code == 401
    assert client.get(path, headers={"If-None-Match": first["ETag"]}).status_code == 401


def test_what_others_may_read_less_of_is_sent_to_each_as_they_may_read_it(
    api: Api, alice: User, bob: User, settings: Any
) -> None:
    settings.JOB_PRIVACY = "owner"
    make_job("alice", "one", state="FAILED", exit_code=1)
    for _ in range(2):
        assert [api(each).get("/api/v1/jobs").json()[0]["appExitCode"] for each in (alice, bob)] == [1, None]


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/user/alice/jobs/one"])
def test_what_did_not_change_is_sent_without_the_middleware_of_pages(
    api: Api, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    make_job("alice", "one", state="SUCCEEDED")
    first = api(alice).get(path)
    same = {"If-None-Match": first["ETag"]}
    passed: list[str] = []
    monkeypatch.setattr(Zone, "process_request", lambda _, request: passed.append(request.path))
    assert api(alice).get(path, headers=same).status_code == 304
    assert api(bob).get(path).content == first.content
    assert passed == []
    assert api(alice).get(path, headers={"Accept-Encoding": "gzip"}).status_code == 200
    assert api(alice).get(path, headers={"Cookie": "zone=UTC"}).status_code == 200
    assert passed == [path, path], "that is another answer, and that one may depend on a session"


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/user/alice/jobs/one"])
def test_what_did_not_change_costs_one_statement_and_no_more_than_the_rights_of_now(
    api: Api, alice: User, bob: User, settings: Any, path: str
) -> None:
    settings.JOB_PRIVACY = "owner"
    make_job("alice", "one", state="FAILED", exit_code=1)
    client, codes = api(bob), []
    for is_admin in (True, False, True):
        User.objects.filter(pk=bob.pk).update(is_admin=is_admin)
        first = client.get(path)
        with CaptureQueriesContext(connection) as statements:
            assert client.get(path).content == first.content
        assert len(statements) == 1
        item = first.json()
        codes.append(item[0]["appExitCode"] if isinstance(item, list) else item["jobStatus"]["appExitCode"])
    assert codes == [1, None, 1]


def test_who_has_the_answer_already_needs_nobody_else_to_ask_for_it(
    api: Api, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = {"If-None-Match": api(alice).get("/api/v1/jobs")["ETag"]}
    repeated.forget()  # another process
    assert api(alice).get("/api/v1/jobs", headers=same).status_code == 304
    with monkeypatch.context() as broken:
        broken.setattr(Zone, "process_request", None)
        assert api(alice).get("/api/v1/jobs", headers=same).status_code == 304
    assert api(alice).get("/api/v1/jobs").json() == []


def test_it_sends_a_detail_once_and_then_says_that_nothing_changed(api: Api, alice: User) -> None:
    job = submitted(alice, "one")
    url = "/api/v1/user/alice/jobs/one"
    assert "ETag" not in api(None).get(url)  # why it waits changes with the cluster and the clock
    Job.objects.filter(pk=job.pk).update(state="RUNNING")
    first = api(None).get(url)
    assert api(None).get(url, headers={"If-None-Match": first["ETag"]}).status_code == 304
    job.tasks.update(state="RUNNING", fact_at=job.created_at)
    changed = api(None).get(url, headers={"If-None-Match": first["ETag"]})
    assert (changed.status_code, changed["ETag"] != first["ETag"]) == (200, True)


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/", "/api/v1/virtual-clusters", "/healthz", "/api/v1/"])
def test_it_answers_head_as_get_without_the_body(db: None, path: str) -> None:
    answer = Client().head(path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_it_does_not_mind_a_body_with_get(api: Api, alice: User) -> None:
    submitted(alice, "one")
    for path in ("/api/v1/jobs", "/api/v1/user/alice/jobs/one", "/api/v1/user/alice/jobs/one/config"):
        answer = api(alice).generic("GET", path, "{}", content_type="application/json")
        assert answer.status_code == 200


def test_it_repeats_an_unknown_address_as_it_was_written() -> None:
    request = RequestFactory().get("/api/v1/a~b/")
    request.META["asgi.scope"] = {"raw_path": b"/api/v1/a%7Eb/", "query_string": b"x=%20"}
    assert no_api(request).message == "API /api/v1/a%7Eb/?x=%20 is not found."


def test_it_says_the_line_of_the_old_front_server_to_who_wants_text(db: None) -> None:
    assert Client().get("/healthz", headers={"Accept": "text/plain"}).content == b"Pylon ready."
    assert Client().get("/healthz", headers={"Accept": "*/*"}).json()["database"] is True


KINDS: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
    ("application/json", json.dumps),
    ("text/plain;charset=UTF-8", json.dumps),
    ("application/x-www-form-urlencoded", lambda body: "&".join(f"{key}={value}" for key, value in body.items())),
]


@pytest.mark.parametrize(("kind", "written"), KINDS)
def test_it_gives_a_token_for_each_kind_of_body(
    db: None, alice: User, kind: str, written: Callable[[dict[str, Any]], str]
) -> None:
    body = written({"username": "alice", "password": PASSWORD, "expiration": 4000})
    answer = Client().post("/api/v1/token", body, content_type=kind)
    assert (answer.status_code, answer.json()["user"]) == (200, "alice")


@pytest.mark.parametrize(("kind", "written"), KINDS)
def test_it_stops_a_job_for_each_kind_of_body(
    api: Api, alice: User, kind: str, written: Callable[[dict[str, Any]], str]
) -> None:
    submitted(alice, "one")
    url = "/api/v1/user/alice/jobs/one/executionType"
    assert api(alice).put(url, written({"value": "STOP"}), content_type=kind).status_code == 202


def test_it_takes_a_job_as_text(api: Api, alice: User) -> None:
    answer = api(alice).post("/api/v1/user/alice/jobs", json.dumps(config("one")), content_type="text/plain")
    assert answer.status_code == 201
