"""A user who asks for too much waits for an answer; nobody else does."""

from __future__ import annotations

import json
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from base.accounts import budget
from base.models import User
from jobs.models import Job
from tests.builders import make_config, make_job, make_node
from tests.http import Browser

pytestmark = pytest.mark.django_db
ASKED = {
    "/submit/check": {"config": json.dumps(make_config())},
    "/submit/sizes": {"config": json.dumps(make_config()), "role": "0"},
    "/submit/ignored": {"patterns": "*.o", "paths": '["a.o"]'},
    "/api/v1/jobs/validate": make_config(),
    "/api/v1/sweeps/validate": make_config(),
}


@pytest.fixture(autouse=True)
def _standing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes back meanwhile, and no question costs anything, unless the test says so."""
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: 1000.0, thread_time=lambda: 0.0))


def browser(name: str) -> Browser:
    made = Browser()
    made.force_login(User.objects.create_user(name, "correct horse"))
    return made


def ask(client: Browser, address: str, fields: Any) -> Any:
    return (
        client.post(address, fields, content_type="application/json")
        if "/api/" in address
        else client.post(address, fields)
    )


@pytest.mark.parametrize("address", ASKED)
def test_who_has_spent_their_time_is_told_when_to_ask_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = browser("alice"), browser("bob")
    assert ask(alice, address, ASKED[address]).status_code == 200
    monkeypatch.setitem(budget._spent, "alice", (budget.time.monotonic(), budget.SECONDS + 5))
    answer = ask(alice, address, ASKED[address])
    assert answer.status_code == 429
    assert 15 <= int(answer["Retry-After"]) <= 21
    assert "Try again in" in answer.content.decode()
    assert ask(bob, address, ASKED[address]).status_code == 200
    monkeypatch.setitem(budget._spent, "alice", (budget.time.monotonic() - 30, budget.SECONDS + 5))
    assert ask(alice, address, ASKED[address]).status_code == 200


@pytest.mark.parametrize(
    ("address", "sent"), [("/api/v1/sweeps", make_config()), ("/submit", {"config": json.dumps(make_config())})]
)
def test_a_submission_that_is_checked_counts_too(address: str, sent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = browser("alice")
    monkeypatch.setitem(budget._spent, "alice", (budget.time.monotonic(), budget.SECONDS + 5))
    answer = ask(alice, address, sent)
    assert answer.status_code == 429 and int(answer["Retry-After"]) > 1


LARGE = make_config("large", tasks=budget.FEW + 1)
LONG = make_config("large", extras={"note": "x" * budget.SMALL})
DOORS = {  # of one job: method, address and what is sent with its config
    "POST": ("post", "/api/v1/jobs", None),
    "POST of a user": ("post", "/api/v1/user/alice/jobs", None),
    "PUT": ("put", "/api/v1/user/alice/jobs/large", None),
    "of v2": ("post", "/api/v2/jobs", None),
    "of the first release": ("put", "/api/job/large", None),
    "page": ("post", "/submit", {"anyway": "1"}),
}


def send(client: Browser, door: str, config: dict[str, Any]) -> Any:
    method, address, fields = DOORS[door]
    if fields is not None:
        return client.post(address, {"config": json.dumps(config), **fields})
    return getattr(client, method)(address, json.dumps(config), content_type="application/json")


@pytest.mark.parametrize("config", [LARGE, LONG], ids=["many tasks", "long config"])
@pytest.mark.parametrize("door", DOORS)
def test_who_has_spent_their_time_submits_nothing_large(
    door: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = browser("alice")
    monkeypatch.setitem(budget._spent, "alice", (budget.time.monotonic(), budget.SECONDS + 5))
    answer = send(alice, door, config)
    assert answer.status_code == 429
    assert 15 <= int(answer["Retry-After"]) <= 21
    assert "Try again in" in answer.content.decode()
    assert not Job.objects.exists()
    budget.forget()
    assert send(alice, door, config).status_code in (201, 202, 200, 302)
    assert Job.objects.get().name == "large"


def test_small_jobs_are_never_refused_and_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may submit thousands of them, one after the other or several at once."""
    alice = browser("alice")
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(seconds))
    spent = (budget.time.monotonic(), budget.SECONDS + 5)
    monkeypatch.setitem(budget._spent, "alice", spent)
    with ExitStack() as others:
        budget._writing.add("alice")
        others.callback(budget._writing.discard, "alice")
        for number in range(30):
            assert send(alice, "POST", make_config(f"job-{number}", tasks=4)).status_code == 201
    assert budget._spent["alice"] == spent


def test_a_config_that_takes_no_longer_to_read_than_most_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alice, clock = browser("alice"), iter((1.0, 1.0 + budget.FREE, 2.0, 12.5 + budget.FREE))
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(clock))
    assert send(alice, "POST", LONG).status_code == 201
    assert budget._now("alice") == pytest.approx(0.0)
    assert send(alice, "POST", {**LONG, "taskRoles": []}).status_code == 400
    assert budget._now("alice") == pytest.approx(10.5)
    assert send(alice, "POST", LONG).status_code == 429


def test_a_user_has_one_large_job_written_at_once() -> None:
    """On SQLite nobody else writes meanwhile, and six at once left no gap for others."""
    alice, bob = browser("alice"), browser("bob")
    sweep = make_config("sweep-$$a$$", extras={"sweep": {"grid": {"a": "1..9"}}})
    sweep["taskRoles"][0]["command"] = "echo $$a$$"
    sweep["jobName"] = "sweep"
    with budget.writing("alice", budget.FEW + 1):
        for refused in (send(alice, "POST", LARGE), ask(alice, "/api/v1/sweeps", sweep)):
            assert refused.status_code == 429 and refused["Retry-After"] == "1"
            assert "Another large job or sweep of yours is being written" in refused.json()["message"]
        assert send(alice, "POST", make_config("small")).status_code == 201
        assert send(bob, "POST", {**LARGE, "jobName": "also-large"}).status_code == 201
    assert send(alice, "POST", LARGE).status_code == 201
    assert ask(alice, "/api/v1/sweeps", sweep).status_code == 201


def test_between_two_large_jobs_of_a_user_others_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    alice, now, slept = browser("alice"), [1000.0], list[float]()
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(budget.time, "sleep", slept.append, raising=False)
    with budget.writing("alice", budget.FEW + 1):
        now[0] += 0.75
    now[0] += 0.25
    assert send(alice, "POST", make_config("small")).status_code == 201
    with budget.writing("bob", budget.FEW + 1):
        pass
    assert slept == []
    assert send(alice, "POST", LARGE).status_code == 201
    assert slept == [0.5]


def test_what_is_submitted_in_place_of_a_job_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = browser("alice")
    assert send(alice, "POST", LARGE).status_code == 201
    fields = {"change": json.dumps({"memoryMB": {"worker": 512}})}
    monkeypatch.setitem(budget._spent, "alice", (budget.time.monotonic(), budget.SECONDS + 5))
    for state, address in (("WAITING", "/jobs/alice/large/change"), ("FAILED", "/jobs/alice/large/again")):
        Job.objects.update(state=state)
        answer = alice.post(address, fields)
        assert (answer.status_code, answer["Retry-After"]) == (429, "21")
    assert Job.objects.count() == 1


def test_a_question_is_counted_by_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((1.0, 8.0, 8.0, 14.0))
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(clock))
    for _ in range(2):
        with budget.question("alice"):
            pass
    with pytest.raises(budget.TooManyRequests), budget.question("alice"):
        pass


def test_questions_count_while_they_are_answered() -> None:
    """Else as many as come at the same moment would all find something left."""
    with ExitStack() as asked:
        for _ in range(int(budget.SECONDS / budget.HELD)):
            asked.enter_context(budget.question("alice"))
        with budget.question("bob"):
            pass
        with pytest.raises(budget.TooManyRequests), budget.question("alice"):
            pass
    with budget.question("alice"):
        pass


def test_a_user_has_so_many_live_tasks_at_most(settings: Any) -> None:
    settings.USER_TASKS = 10
    make_node()
    make_job("alice", "there", tasks=8)
    make_job("alice", "ended", state="SUCCEEDED", tasks=8)
    alice = browser("alice")
    refused = ask(alice, "/api/v1/user/alice/jobs", make_config("more", tasks=3))
    assert refused.status_code == 403
    assert "have 8 tasks; with 3 more they would be above 10" in refused.json()["message"]
    assert ask(alice, "/api/v1/user/alice/jobs", make_config("more", tasks=2)).status_code == 201


def test_forged_forms_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    stranger = Client(enforce_csrf_checks=True)
    assert [stranger.post("/login", {"username": "alice"}).status_code for _ in range(3)] == [403] * 3
    assert [record for record in caplog.records if "csrf" in record.name.lower()] == []


@pytest.mark.parametrize("target", ["foo", "registration", "javascript:alert(1)", "//evil.example", "\\\\evil", "jobs"])
def test_an_address_to_go_to_that_is_no_path_leads_home(target: str) -> None:
    answer = browser("alice").get("/login", {"next": target})
    assert (answer.status_code, answer["Location"]) == (302, "/")
