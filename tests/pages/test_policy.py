"""The page of what-if: small forms make changes, and what they would do is shown; without a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from base.models import User
from jobs.what_if.answer import what_if
from tests.builders import make_job, make_node
from tests.helpers import LIMIT
from tests.history import HOUR, held
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
NOW = time.time_ns() // 1_000_000
LONG = "imagenet-" + "x" * 60


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to play the queues."""
    monkeypatch.setattr(what_if, "__defaults__", (LIMIT,))


def a_queue() -> None:
    node = make_node("n1", gpus=4)
    make_node("n2", gpus=2)
    for at in range(20):
        held(NOW - (at + 2) * HOUR, NOW - (at + 1) * HOUR, username="alice", job_name=f"train-{at}", id=10_000 + at)
    make_job("alice", "runs", state="RUNNING", gpus=4, node=node)
    make_job("alice", "train-98", gpus=4)
    make_job("alice", LONG, gpus=2)


FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "vc": ({"add": "vc", "name": "vision", "gpus": "8", "of": "both"}, "vc:vision:both:+8"),
    "fewer": ({"add": "vc", "name": "vision", "gpus": "-8", "of": "ceiling"}, "vc:vision:ceiling:-8"),
    "node": ({"add": "node", "name": "n1", "becomes": "drain"}, "node:n1:drain"),
    "new": ({"add": "new", "name": "n9", "gpus": "8", "type": ""}, "node:n9:add:8"),
    "type": ({"add": "new", "name": "n9", "gpus": "8", "type": "A100"}, "node:n9:add:8:A100"),
    "job": ({"add": "job", "name": "alice/runs", "becomes": "evict", "priority": "0"}, "job:alice~runs:evict"),
    "priority": ({"add": "job", "name": "a/b", "becomes": "priority", "priority": "5"}, "job:a~b:priority:5"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_small_form_becomes_one_more_change(browse: Browse, admin: User, form: str) -> None:
    fields, change = FORMS[form]
    answer = browse(admin).get("/policy", {"change": "node:n1:drain", **fields})
    assert answer.status_code == 302
    assert answer.wsgi_request.GET.getlist("change") == ["node:n1:drain"]
    assert answer["Location"].endswith(f"change={change.replace(':', '%3A').replace('+', '%2B').replace('/', '%2F')}")


def test_it_says_who_starts_who_waits_and_who_is_evicted(browse: Browse, admin: User) -> None:
    a_queue()
    seen = browse(admin).get("/policy?change=node:n1:drain&change=node:n3:add:8").content.decode()
    assert "Node n1 is drained" in seen and "Node n3 is added with 8 GPUs" in seen
    assert "starts at once" in seen
    assert "It is evicted after" in seen and "gives back 4 GPUs: Node n1 is drained." in " ".join(seen.split())
    assert 'href="/nodes/n1/drain"' in seen
    assert 'href="/policy?change=node%3An3%3Aadd%3A8"' in seen, "without the first one"


def test_a_change_that_cannot_be_is_told_and_can_be_taken_back(browse: Browse, admin: User) -> None:
    a_queue()
    answer = browse(admin).get("/policy?change=node:n9:drain")
    seen = answer.content.decode()
    assert answer.status_code == 400
    assert "There is no node n9." in seen and "Leave out: Node n9 is drained" in seen
    assert "Each change alone" not in seen


def test_an_empty_queue_says_so(browse: Browse, admin: User) -> None:
    make_node("n1", gpus=4)
    assert "Nobody waits" in browse(admin).get("/policy").content.decode()
    assert "Nobody waits" in browse(admin).get("/policy?change=node:n1:drain").content.decode()


def test_it_is_for_admins(browse: Browse, alice: User) -> None:
    assert browse(alice).get("/policy").status_code == 403
    assert browse(None).get("/policy")["Location"].startswith("/login")


def test_admins_find_it_beside_the_virtual_clusters(browse: Browse, admin: User, alice: User) -> None:
    assert 'href="/policy"' in browse(admin).get("/vcs").content.decode()
    assert 'href="/policy"' not in browse(alice).get("/vcs").content.decode()


def test_its_queries_do_not_grow(
    browse: Browse, admin: User, count_queries: Callable[[Callable[[], object]], int]
) -> None:
    a_queue()
    client = browse(admin)
    few = count_queries(lambda: client.get("/policy?change=node:n1:drain"))
    for at in range(10):
        make_job("alice", f"more-{at}", gpus=1)
    assert count_queries(lambda: client.get("/policy?change=node:n1:drain")) <= few <= 17


@pytest.mark.browser
def test_a_change_is_made_with_the_keyboard(tab: Callable[..., Tab], admin: User) -> None:
    a_queue()
    page = tab(admin).open("/policy")
    page.get_by_label("Name of the new node").fill("n3")
    page.get_by_label("GPUs of the new node").press("Enter")
    page.get_by_role("heading", name="Who feels it").wait_for()
    page.get_by_role("rowheader", name="Node n3 is added with 8 GPUs").wait_for()
