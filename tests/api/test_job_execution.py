"""PUT .../executionType and DELETE .../jobs/:j (v1 contract, 3.8 and 4.6)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from base.models import User
from jobs.models import Job
from tests.submitting import submitted

Api = Callable[[User | None], APIClient]
JOB = "/api/v1/user/alice/jobs/hello"
URL = f"{JOB}/executionType"


@pytest.fixture
def job(alice: User) -> Job:
    return submitted(alice)


@pytest.mark.parametrize("form", [("json", {"value": "STOP"}), ("urlencoded", "value=STOP")])
def test_it_records_a_stop_at_once(api: Api, alice: User, job: Job, form: tuple[str, object]) -> None:
    kind, body = form
    client = api(alice)
    if kind == "json":
        answer = client.put(URL, body, format="json")
    else:
        answer = client.put(URL, body, content_type="application/x-www-form-urlencoded")
    assert (answer.status_code, answer.json()) == (202, {"message": "execute job hello successfully"})
    assert client.get(JOB).json()["jobStatus"]["executionType"] == "STOP"


@pytest.mark.parametrize("url", [URL, "/api/v1/jobs/alice~hello/executionType", "/api/v1/jobs/hello/executionType"])
def test_it_answers_the_same_when_asked_twice_and_for_an_ended_job(api: Api, alice: User, job: Job, url: str) -> None:
    for value in ("STOP", "STOP", "START"):
        assert api(alice).put(url, {"value": value}, format="json").status_code == 202
    Job.objects.update(state="STOPPED")
    assert api(alice).put(url, {"value": "STOP"}, format="json").status_code == 202


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", 'child "value" fails because ["value" is required]'),
        ("", 'child "value" fails because ["value" is required]'),
        ('{"value": ""}', 'child "value" fails because ["value" is not allowed to be empty]'),
        ('{"value": 1}', 'child "value" fails because ["value" must be a string]'),
        ('{"value": "STOP", "x": 1}', '"x" is not allowed'),
        ("[]", '"value" must be an object'),
    ],
)
def test_it_checks_the_body_before_the_token(api: Api, job: Job, body: str, message: str) -> None:
    answer = api(None).generic("PUT", URL, body, content_type="application/json")
    assert answer.status_code == 400
    assert answer.json() == {"code": "InvalidParametersError", "message": message}


def test_it_answers_broken_json_without_a_code(api: Api, alice: User, job: Job) -> None:
    answer = api(alice).generic("PUT", URL, "{", content_type="application/json")
    assert (answer.status_code, answer.json()) == (400, {"message": "Unexpected end of JSON input"})


def test_it_refuses_another_word_guests_and_strangers(api: Api, alice: User, bob: User, admin: User, job: Job) -> None:
    unknown = api(alice).put(URL, {"value": "PAUSE"}, format="json")
    assert (unknown.status_code, unknown.json()["code"]) == (400, "UnknownError")
    assert api(None).put(URL, {"value": "STOP"}, format="json").status_code == 401
    refused = api(bob).put(URL, {"value": "STOP"}, format="json")
    assert refused.status_code == 403
    message = "User bob is not allowed to execute job hello."
    assert refused.json() == {"code": "ForbiddenUserError", "message": message}
    assert Job.objects.get().execution == "START"
    assert api(admin).put(URL, {"value": "STOP"}, format="json").status_code == 202


def test_it_looks_for_the_job_before_the_token(api: Api, db: None) -> None:
    for answer in (api(None).put(URL, {"value": "STOP"}, format="json"), api(None).delete(JOB)):
        assert answer.status_code == 404
        assert answer.json() == {"code": "NoJobError", "message": "Job hello is not found."}


def test_it_deletes_a_job_and_frees_its_name(api: Api, alice: User, job: Job) -> None:
    answer = api(alice).delete(JOB)
    assert (answer.status_code, answer.json()) == (202, {"message": "deleted job hello successfully"})
    assert api(alice).get(JOB).status_code == 404
    assert submitted(alice).name == "hello"


def test_messages_bear_the_name_asked_for(api: Api, alice: User, job: Job) -> None:
    url = "/api/v1/jobs/alice~hello"
    answer = api(alice).put(f"{url}/executionType", {"value": "STOP"}, format="json")
    assert answer.json() == {"message": "execute job alice~hello successfully"}
    assert api(alice).delete(url).json() == {"message": "deleted job alice~hello successfully"}
    assert api(alice).get(url).json()["message"] == "Job alice~hello is not found."


def test_it_lets_only_the_owner_and_admins_delete(api: Api, bob: User, admin: User, job: Job) -> None:
    assert api(None).delete(JOB).status_code == 401
    refused = api(bob).delete(JOB)
    assert (refused.status_code, refused.json()["message"]) == (403, "User bob is not allowed to remove job hello.")
    assert api(admin).delete(JOB).status_code == 202


# --- many at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["/api/v1/jobs/stop", "/api/v1/user/alice/jobs/stop"])
def test_many_are_stopped_by_one_request(api: Api, alice: User, url: str) -> None:
    for name in ("a", "b", "over", "left"):
        submitted(alice, name)
    Job.objects.filter(name="over").update(state="FAILED")
    wrong = api(alice).post(url, {"jobs": ["b", "a", "nul\x00"]}, format="json")
    assert wrong.status_code == 400 and "jobs" in wrong.json()["message"]
    assert not Job.objects.filter(execution="STOP").exists()
    answer = api(alice).post(url, {"jobs": ["b", "a", "over", "none", "b"]}, format="json")
    assert (answer.status_code, answer.json()) == (202, {"stopped": ["b", "a"], "left": ["over", "none"]})
    assert set(Job.objects.filter(execution="STOP").values_list("name", flat=True)) == {"a", "b"}
    again = api(alice).post(url, {"jobs": ["a"]}, format="json")
    assert again.json() == {"stopped": [], "left": ["a"]}


@pytest.mark.parametrize("url", ["/api/v1/jobs/stop", "/api/v1/user/alice/jobs/stop"])
def test_many_are_named_as_one_is(api: Api, alice: User, bob: User, url: str) -> None:
    submitted(alice, "a"), submitted(alice, "b"), submitted(bob, "a")
    answer = api(alice).post(url, {"jobs": ["alice~a", "a", "b", "bob~a"]}, format="json")
    assert answer.json() == {"stopped": ["a", "b"], "left": ["bob~a"]}
    assert Job.objects.filter(execution="STOP", username="alice").count() == 2
    assert not Job.objects.filter(execution="STOP", username="bob").exists()


def test_many_cost_no_more_statements_than_few(api: Api, alice: User) -> None:
    names = [submitted(alice, f"n{at}").name for at in range(40)]
    counts = []
    for some in (names[:2], names[2:]):
        with CaptureQueriesContext(connection) as asked:
            assert api(alice).post("/api/v1/jobs/stop", {"jobs": some}, format="json").json()["stopped"] == some
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_a_job_may_be_called_stop(api: Api, alice: User) -> None:
    submitted(alice, "stop")
    assert api(alice).get("/api/v1/jobs/stop").json()["name"] == "stop"
    assert api(alice).delete("/api/v1/user/alice/jobs/stop").status_code == 202


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("{}", '"jobs" is required'),
        ('{"jobs": []}', "at least 1"),
        ('{"jobs": "a"}', '"jobs" must be an array'),
        ('{"jobs": [1]}', "must be a string"),
        (json.dumps({"jobs": ["a"] * 1001}), "1000"),
    ],
)
def test_it_refuses_names_and_people(
    api: Api, alice: User, bob: User, admin: User, job: Job, body: str, says: str
) -> None:
    answer = api(alice).generic("POST", "/api/v1/jobs/stop", body, content_type="application/json")
    assert answer.status_code == 400 and says in answer.json()["message"], answer.json()
    for user, status in ((None, 401), (bob, 403)):
        refused = api(user).post("/api/v1/user/alice/jobs/stop", {"jobs": ["hello"]}, format="json")
        assert refused.status_code == status
    assert not Job.objects.filter(execution="STOP").exists()
    assert api(admin).post("/api/v1/user/alice/jobs/stop", {"jobs": ["hello"]}, format="json").status_code == 202
