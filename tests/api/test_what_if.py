"""GET and POST /cluster/what-if."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from base.models import User
from tests.builders import make_job, make_node
from tests.http import ApiClient

Api = Callable[[User | None], ApiClient]
pytestmark = pytest.mark.django_db
URL = "/api/v1/cluster/what-if"


@pytest.fixture
def queue(alice: User) -> None:
    node = make_node("n1", gpus=2)
    make_job("alice", "runs", state="RUNNING", gpus=2, node=node)
    make_job("alice", "waits", gpus=2)


def test_it_says_who_would_start_and_who_would_be_evicted(api: Api, admin: User, queue: None) -> None:
    answer = api(admin).get(f"{URL}?change=node:n2:add:2").json()
    assert (answer["waiting"], answer["running"]) == (1, 1)
    assert answer["changes"] == [{"change": "node:n2:add:2", "sentence": "Node n2 is added with 2 GPUs"}]
    [felt] = answer["jobs"]
    assert (felt["job"], felt["effect"], felt["after"]["startsNow"]) == ("alice~waits", "now", True)
    assert answer["reservations"] == [{"job": "alice~waits", "before": ["n1"], "after": []}]
    [vc] = answer["vcs"]
    assert vc["before"] == {"guarantee": 2, "ceiling": None, "used": 2}
    assert vc["after"]["guarantee"] == 4


def test_a_body_says_the_same(api: Api, admin: User, queue: None) -> None:
    got = api(admin).get(f"{URL}?change=job:alice~runs:evict&change=node:n1:return").json()
    body = {"changes": ["job:alice~runs:evict", "node:n1:return"]}
    posted = api(admin).post(URL, body, format="json")
    assert posted.status_code == 200
    passing = {"at": 0, "evicted": []}
    assert {**posted.json(), **passing} == {**got, **passing}
    [gone] = posted.json()["evicted"]
    assert (gone["job"], gone["gpus"], gone["because"]) == ("alice~runs", 2, "Job alice/runs is evicted.")


def test_without_a_change_nothing_is_felt(api: Api, admin: User, queue: None) -> None:
    answer = api(admin).get(URL).json()
    assert (answer["jobs"], answer["evicted"], answer["reservations"]) == ([], [], [])
    assert [line["what"] for line in answer["lines"]] == ["Nothing changes"]


@pytest.mark.parametrize("body", [{}, {"changes": "vc:a:+1"}, {"changes": [1]}, {"changes": [], "more": 1}, []])
def test_a_body_that_is_wrong_is_refused(api: Api, admin: User, body: Any) -> None:
    answer = api(admin).post(URL, body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


@pytest.mark.parametrize(
    "change", ["", "x", "vc:nobody:+1", "node:n9:drain", "job:alice~x:stop", "vc:default:+1", "\0"]
)
def test_a_change_that_cannot_be_is_a_sentence(api: Api, admin: User, queue: None, change: str) -> None:
    answer = api(admin).get(URL, {"change": change})
    assert answer.status_code == 400
    assert answer.json()["message"].endswith(".")


def test_it_is_for_admins(api: Api, alice: User) -> None:
    assert api(alice).get(URL).status_code == 403
    assert api(alice).post(URL, {"changes": []}, format="json").status_code == 403
    assert api(None).get(URL).status_code == 401
