"""Every page answers, without a browser."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

from base.models import User
from tests.builders import make_job, make_node

STATES = ("WAITING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")


def test_it_shows_every_tab_of_a_job_in_every_state(browse: Callable[[User | None], Client], alice: User) -> None:
    node, client, wrong = make_node(), browse(alice), []
    for state in STATES:
        make_job("alice", f"is-{state}", state=state, node=node, tasks=2)
        for tab in ("", "/events", "/attempts", "/config"):
            answer = client.get(f"/jobs/alice/is-{state}{tab}")
            if answer.status_code != 200 or f"is-{state}" not in answer.content.decode():
                wrong.append((state, tab, answer.status_code))
    assert wrong == []


def test_it_shows_home_list_submit_nodes_and_account(browse: Callable[[User | None], Client], alice: User) -> None:
    node = make_node(gpus=4)
    for state in STATES:
        make_job("alice", state=state, node=node, gpus=1)
    for url in ("/", "/jobs", "/submit", "/submit?template=hello-world", "/nodes", "/account"):
        assert browse(alice).get(url).status_code == 200, url
