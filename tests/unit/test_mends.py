"""A mend is certain: with it the config has one problem less, in that place none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from base.core.errors import InvalidConfig, Mend, Problem
from jobs.config import jsonc
from jobs.config.spec import read_config

GOOD = {"jobName": "a", "image": "x", "taskRoles": [{"name": "worker", "command": "true"}]}


def problems(text: str) -> tuple[Problem, ...]:
    try:
        read_config(text)
    except InvalidConfig as invalid:
        return invalid.problems
    return ()


def mended(text: str, mend: Mend) -> str:
    """What a page does with a mend, without its care for the layout."""
    if mend.kind == "insert":
        lines = text.split("\n")
        line = lines[mend.line - 1]
        lines[mend.line - 1] = f"{line[: mend.column - 1]}{mend.value}{line[mend.column - 1 :]}"
        return "\n".join(lines)
    value = jsonc.parse(text).value
    *steps, last = [jsonc.unescape(step) for step in mend.path.split("/")[1:]]
    around = value
    for step in steps:
        around = around[int(step)] if isinstance(around, list) else around[step]
    at: Any = int(last) if isinstance(around, list) else last
    if mend.kind == "set":
        around[at] = mend.value
    else:
        old = around.pop(at)
        if mend.kind == "rename":
            around[mend.value] = old
    return json.dumps(value)


ROLE = {"name": "worker", "command": "true"}
CASES: list[tuple[dict[str, Any], str]] = [
    ({"taskRoles": [{"name": "worker", "comand": "true"}]}, 'Rename to "command"'),
    ({"imagee": "y", "image": None}, ""),
    ({"taskRoles": [{"command": "true"}]}, 'Name it "worker"'),
    ({"taskRoles": [ROLE, {"command": "true"}]}, 'Name it "main"'),
    ({"taskRoles": [ROLE, ROLE]}, 'Rename to "worker2"'),
    ({"taskRoles": [{**ROLE, "memoryMB": "8 GB"}]}, "Set to 8192"),
    ({"taskRoles": [{**ROLE, "memoryMB": 10}]}, "Set to 100"),
    ({"taskRoles": [{**ROLE, "memoryMB": 4096, "shmMB": 8192}]}, "Set to 4096"),
    ({"taskRoles": [{**ROLE, "cpuNumber": None}]}, "Remove it, for the default"),
    ({"taskRoles": [{**ROLE, "cpuNumber": "many"}]}, ""),
    ({"taskRoles": [{**ROLE, "taskNumber": 2, "minFailedTaskCount": 3}]}, "Set to 2"),
    ({"taskRoles": [{**ROLE, "name": "my-role"}]}, 'Rename to "my_role"'),
    ({"taskRoles": ROLE}, "Put it into an array"),
    ({"jobName": "two words"}, 'Rename to "two-words"'),
    ({"jobName": 7}, 'Set to "7"'),
    ({"image": " x "}, "Remove the space"),
    ({"image": "x y"}, ""),
    ({"taskRoles": [{**ROLE, "memoryMB": "9" * 400 + "g"}]}, ""),
    ({"retryCount": -9}, "Set to -2"),
    ({"extras": {"priority": 1000}}, "Set to 100"),
    ({"extras": {"preemptible": "yes"}}, "Set to true"),
    ({"extras": {"profile": "pia"}}, 'Set to "pai"'),
    ({"jobEnvs": None}, "Remove it, for the default"),
]


@pytest.mark.parametrize(("change", "says"), CASES, ids=[json.dumps(case[0])[:60] for case in CASES])
def test_what_a_button_promises_mends_the_config(change: dict[str, Any], says: str) -> None:
    text = json.dumps({**GOOD, **change})
    found = problems(text)
    problem = next((each for each in found if each.mend), found[0])
    mend = problem.mend
    assert (mend.says if mend else "") == says
    if mend:
        after = problems(mended(text, mend))
        assert [each.path for each in after if each.path == problem.path] == [] and len(after) < len(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"jobName": "a"\n "image": "x"}', "Add the comma"),
        ('{"jobName": "a" // why\n "image": "x"}', "Add the comma"),
        ('{"taskRoles": [{"name": "ü"} {"name": "b"}]}', "Add the comma"),
        ('{"jobName": "a", "taskRoles": [{', "Close it"),
        ('{"jobName": "a', ""),
        ('{"jobName" "a"}', ""),
        ("{,", ""),
    ],
)
def test_a_text_that_cannot_be_read_is_mended_only_when_it_reads_afterwards(text: str, says: str) -> None:
    mend = problems(text)[0].mend
    assert (mend.says if mend else "") == says
    if mend:
        jsonc.parse(mended(text, mend))


def test_a_known_name_that_is_there_already_is_not_proposed() -> None:
    text = json.dumps({**GOOD, "imagee": "y"})
    assert problems(text)[0].mend is None
