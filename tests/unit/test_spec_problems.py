"""How many problems of one config are told."""

from __future__ import annotations

import json

import pytest

from base.core.errors import InvalidConfig
from jobs.config.spec import read_config


def test_of_thousands_of_problems_the_first_are_told_and_how_many_there_are() -> None:
    """Each takes about a millisecond to word and to place: thousands would keep everybody waiting."""
    unknown = {f"taskNmber{number}": 1 for number in range(1000)}
    with pytest.raises(InvalidConfig) as refused:
        read_config(json.dumps({"jobName": "j", "image": "i", "taskRoles": [{"name": "w", "command": "x"}], **unknown}))
    *told, rest = refused.value.problems
    assert [problem.path for problem in told] == [f"/{name}" for name in list(unknown)[:200]]
    assert rest.message == "There are 1,000 problems; these are the first 200."


@pytest.mark.parametrize("path", [r"/taskRoles", r"/extras/secrets\ud800", r"/extras/sweep\ud800"])
def test_no_problem_holds_half_of_a_surrogate_pair(path: str) -> None:
    """No answer can carry one: the name is spelled out, and a mend that cannot be sent is none."""
    with pytest.raises(InvalidConfig) as refused:
        read_config(
            r'{"jobName": "j", "image": "i", "taskRoles": {"\ud800": 1},'
            r' "extras": {"secrets\ud800": "x", "sweep\ud800": 1, "secrets": {"\ud800": "x"}}}'
        )
    problems = {problem.path: problem for problem in refused.value.problems}
    assert problems[path].mend is None
    assert "".join(f"{each.path}{each.message}" for each in problems.values()).encode()
    assert refused.value.message.encode()
