"""Every page answers, without a browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from base.models import User
from tests.builders import make_job, make_node

STATES = ("WAITING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("tab", ["", "/events", "/attempts", "/config"])
def test_it_shows_every_tab_of_a_job_in_every_state(
    browse: Callable[[User | None], Client], alice: User, state: str, tab: str
) -> None:
    make_job("alice", "train", state=state, node=make_node(), tasks=2)
    answer = browse(alice).get(f"/jobs/alice/train{tab}")
    assert answer.status_code == 200
    assert "train" in answer.content.decode()


def test_it_shows_home_list_submit_nodes_and_account(browse: Callable[[User | None], Client], alice: User) -> None:
    node = make_node(gpus=4)
    for state in STATES:
        make_job("alice", state=state, node=node, gpus=1)
    for url in ("/", "/jobs", "/submit", "/submit?template=hello-world", "/nodes", "/account"):
        assert browse(alice).get(url).status_code == 200, url
