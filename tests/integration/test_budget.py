"""A user who asks for too much waits for an answer; nobody else does."""

from __future__ import annotations

import json
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from base.models import User
from portal.shared import budget
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
