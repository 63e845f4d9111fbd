"""A user who asks for too much waits for an answer; nobody else does."""

from __future__ import annotations

import json
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
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


def spend(name: str, *, seconds: float = 0.0, rows: float = 0.0) -> budget._Spent:
    spent = budget._of(name)
    spent.seconds, spent.rows = seconds, rows
    return spent


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
    spend("alice", seconds=budget.SECONDS + 5)
    answer = ask(alice, address, ASKED[address])
    assert (answer.status_code, answer["Retry-After"]) == (429, "21")
    assert "Try again in 21 seconds" in answer.content.decode()
    assert ask(bob, address, ASKED[address]).status_code == 200
    monkeypatch.setattr(budget.time, "monotonic", lambda: 1021.0)
    assert ask(alice, address, ASKED[address]).status_code == 200


@pytest.mark.parametrize(
    ("address", "sent"), [("/api/v1/sweeps", make_config()), ("/submit", {"config": json.dumps(make_config())})]
)
def test_a_submission_that_is_checked_counts_too(address: str, sent: Any) -> None:
    alice = browser("alice")
    spend("alice", seconds=budget.SECONDS + 5)
    answer = ask(alice, address, sent)
    assert answer.status_code == 429 and int(answer["Retry-After"]) > 1


LARGE = make_config("large", tasks=100)
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


@pytest.mark.parametrize(
    ("config", "spent"), [(LARGE, {"rows": budget.ROWS + 20 * budget.ROWS_BACK}), (LONG, {"seconds": 15.0})]
)
@pytest.mark.parametrize("door", DOORS)
def test_who_has_spent_what_they_may_submits_nothing_large(
    door: str, config: dict[str, Any], spent: dict[str, float]
) -> None:
    alice = browser("alice")
    spend("alice", **spent)
    answer = send(alice, door, config)
    assert (answer.status_code, answer["Retry-After"]) == (429, "21")
    assert "Try again in 21 seconds" in answer.content.decode()
    assert not Job.objects.exists()
    budget.forget()
    assert send(alice, door, config).status_code in (201, 202, 200, 302)
    assert Job.objects.get().name == "large"


def test_small_jobs_are_never_refused_and_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may submit thousands of them, one after the other or several at once."""
    alice = browser("alice")
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(seconds))
    spent = spend("alice", seconds=15.0, rows=50_000.0)
    spent.writing = 50_000
    for number in range(30):
        assert send(alice, "POST", make_config(f"job-{number}", tasks=budget.FEW)).status_code == 201
        assert alice.delete(f"/api/v1/user/alice/jobs/job-{number}").status_code == 202
    assert (spent.seconds, spent.rows) == (15.0, 50_000.0)


def test_a_config_that_takes_no_longer_to_read_than_most_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alice, clock = browser("alice"), iter((1.0, 1.0 + budget.FREE, 2.0, 12.5 + budget.FREE))
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(clock))
    assert send(alice, "POST", LONG).status_code == 201
    assert budget._of("alice").seconds == pytest.approx(0.0)
    assert send(alice, "POST", {**LONG, "taskRoles": []}).status_code == 400
    assert budget._of("alice").seconds == pytest.approx(10.5)
    assert send(alice, "POST", LONG).status_code == 429


@pytest.mark.parametrize(("tasks", "wait"), [(15_000, "2"), (50_000, "16")])
def test_a_user_has_one_large_job_written_at_once(tasks: int, wait: str) -> None:
    """On SQLite nobody else writes meanwhile, and six at once left no gap for others. The answer says when it is likely
    written, and when the next one may be."""
    alice, bob = browser("alice"), browser("bob")
    sweep = make_config("sweep-$$a$$", extras={"sweep": {"grid": {"a": "1..9"}}})
    sweep["taskRoles"][0]["command"] = "echo $$a$$"
    sweep["jobName"] = "sweep"
    with budget.writing("alice", tasks):
        for refused in (*(send(alice, door, LARGE) for door in DOORS), ask(alice, "/api/v1/sweeps", sweep)):
            assert (refused.status_code, refused["Retry-After"]) == (429, wait)
            assert "that others have their turn first" in refused.content.decode()
        assert send(alice, "POST", make_config("small")).status_code == 201
        assert send(bob, "POST", {**LARGE, "jobName": "also-large"}).status_code == 201
    budget.forget()
    assert send(alice, "POST", LARGE).status_code == 201
    assert ask(alice, "/api/v1/sweeps", sweep).status_code == 201


def test_many_middling_jobs_count_by_their_rows() -> None:
    """Forty-eight connections that submit jobs of 1,000 tasks are no less than one of large jobs."""
    with ExitStack() as written:
        for _ in range(2):
            written.enter_context(budget.writing("alice", 1000))
        with pytest.raises(budget.TooManyRequests), budget.writing("alice", 1000):
            pass
    for _ in range(19):
        with budget.writing("alice", 1000):
            pass
    with pytest.raises(budget.TooManyRequests) as refused, budget.writing("alice", 1000):
        pass
    assert refused.value.headers["Retry-After"] == "2"


def test_what_is_written_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with budget.writing("alice", 100_000):
        pass
    with pytest.raises(budget.TooManyRequests) as refused, budget.writing("alice", 100):
        pass
    wait = int(refused.value.headers["Retry-After"])
    monkeypatch.setattr(budget.time, "monotonic", lambda: 1000.0 + wait)
    with budget.writing("alice", 100):
        pass


ENDS = {  # method, address and fields
    "DELETE": ("delete", "/api/v1/user/alice/jobs/large", None),
    "DELETE of v2": ("delete", "/api/v2/user/alice/jobs/large", None),
    "DELETE of the first release": ("delete", "/api/job/large", None),
    "STOP": ("put", "/api/v1/user/alice/jobs/large/executionType", {"value": "STOP"}),
    "STOP of v2": ("put", "/api/v2/user/alice/jobs/large/executionType", {"value": "STOP"}),
    "page that deletes": ("post", "/jobs/alice/large/delete", {}),
    "page that stops": ("post", "/jobs/alice/large/stop", {}),
    "page that stops several": ("post", "/jobs/stop", {"job": "alice/large"}),
}


@pytest.mark.parametrize("end", ENDS)
def test_who_ends_a_large_job_is_not_refused_and_their_next_one_waits_for_it(end: str) -> None:
    """It frees what others wait for; but the scheduler writes as many rows, and the others waited for seconds."""
    alice, (method, address, fields) = browser("alice"), ENDS[end]
    job = make_job("alice", "large", tasks=120, is_legacy=True)
    spent = spend("alice", rows=budget.ROWS)
    if address.startswith("/api"):
        answer = getattr(alice, method)(address, fields, content_type="application/json")
    else:
        answer = alice.post(address, fields)
    assert answer.status_code in (200, 202, 302)
    job.refresh_from_db()
    assert job.execution == "STOP"
    assert spent.rows == budget.ROWS + 100
    assert send(alice, "POST", {**LARGE, "jobName": "next"}).status_code == 429


def test_what_is_submitted_in_place_of_a_job_counts_too() -> None:
    alice = browser("alice")
    assert send(alice, "POST", LARGE).status_code == 201
    fields = {"change": json.dumps({"memoryMB": {"worker": 512}})}
    spend("alice", rows=budget.ROWS + 20 * budget.ROWS_BACK)
    for state, address in (("WAITING", "/jobs/alice/large/change"), ("FAILED", "/jobs/alice/large/again")):
        Job.objects.update(state=state)
        answer = alice.post(address, fields)
        assert (answer.status_code, answer["Retry-After"]) == (429, "21")
    assert Job.objects.count() == 1
    Job.objects.update(state="WAITING")
    spent = spend("alice")
    assert alice.post("/jobs/alice/large/change", fields).status_code == 302
    assert spent.rows == 2 * (100 - budget.FEW), "one job is written anew, and the old one is stopped"


CHANGE = {"change": json.dumps({"gpuNumber": 0})}
# A long config beside its submission: method, address, what is sent, and how often it is read and checked.
READ: dict[str, tuple[str, str, dict[str, str], int, int]] = {
    "page of a change": ("get", "/jobs/alice/long/change", CHANGE, 1, 0),
    "layout": ("post", "/submit", {"action": "layout", "config": json.dumps(LONG)}, 1, 1),
    "change that is offered": ("post", "/submit", {"use": CHANGE["change"], "config": json.dumps(LONG)}, 1, 1),
    "clone": ("get", "/submit", {"from": "alice/long"}, 1, 1),
    "clone with a change": ("get", "/submit", {"from": "alice/long", **CHANGE}, 3, 1),
    "config as YAML": ("get", "/api/v1/user/alice/jobs/long/config", {}, 1, 0),
}


@pytest.mark.parametrize("way", READ)
def test_a_long_config_is_read_in_no_way_by_who_has_spent_their_time(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, (method, address, fields, read, checked) = browser("alice"), READ[way]
    assert send(alice, "POST", {**LONG, "jobName": "long"}).status_code == 201
    headers = {"accept": "text/yaml"} if "YAML" in way else {}
    spend("alice", seconds=15.0)
    answer = getattr(alice, method)(address, fields, headers=headers)
    assert (answer.status_code, answer["Retry-After"]) == (429, "21")
    spent, clock = spend("alice"), iter(range(100))
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(clock))
    assert getattr(alice, method)(address, fields, headers=headers).status_code == 200
    assert spent.seconds == pytest.approx(read * (1 - budget.FREE) + checked), "each took a second"


def test_yaml_of_the_later_system_counts_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    alice, clock = browser("alice"), iter((1.0, 12.5, 13.0, 13.0))
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(clock))
    text = yaml.safe_dump({**LONG, "jobName": "a"})
    assert alice.post("/api/v2/jobs", text, content_type="text/yaml").status_code == 429
    assert not Job.objects.exists()


def test_who_is_made_anew_goes_on_with_what_was_spent() -> None:
    browser("alice")
    spend("alice", rows=budget.ROWS + 20 * budget.ROWS_BACK)
    User.objects.all().delete()
    assert send(browser("alice"), "POST", LARGE).status_code == 429


def test_so_many_users_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_MOST", 3)
    for number in range(9):
        with budget.writing(f"user-{number}", 1000), budget.question(f"other-{number}"):
            budget.wrote(f"third-{number}", 1000)
    assert len(budget._spent) == 3


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
