"""Ports that a config asks for by number, and how many."""

from __future__ import annotations

import pytest

from base.core.errors import InvalidConfig, Problem
from jobs.config.spec import read_config

PORTS_TEXT = """{
  "jobName": "j", "image": "i",
  "taskRoles": [{ "name": "w", "command": "x", "portList": [
    { "label": "a", "beginAt": 22 },
    { "label": "b", "beginAt": 6000, "portNumber": 60 },
    { "label": "c", "portNumber": 41 }
  ] }]
}"""


def test_fixed_ports_are_those_that_a_node_gives_out_and_a_task_has_a_hundred() -> None:
    with pytest.raises(InvalidConfig) as refused:
        read_config(PORTS_TEXT, is_given=lambda first, number: first >= 1024)
    assert refused.value.problems == (
        Problem(
            4,
            32,
            "/taskRoles/0/portList/0/beginAt",
            "No node gives out port 22; use beginAt 0 for free ports, or ask an admin to allow these on a node.",
        ),
        Problem(
            6,
            35,
            "/taskRoles/0/portList/2/portNumber",
            "A task may have 100 ports; with these it asks for 102.",
        ),
    )
    assert 'child "beginAt" fails because ["beginAt" must be 0 or a port that a node gives out]' in str(refused.value)


def test_ten_million_ports_are_not_counted_one_by_one() -> None:
    with pytest.raises(InvalidConfig):
        read_config(PORTS_TEXT.replace("60 }", "60000 }"), is_given=lambda first, number: number <= 100)
