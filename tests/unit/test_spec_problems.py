"""How many problems of one config are told."""

from __future__ import annotations

import json

import pytest

from jobs.config.spec import read_config
from portal.core.errors import InvalidConfig


def test_of_thousands_of_problems_the_first_are_told_and_how_many_there_are() -> None:
    """Each takes about a millisecond to word and to place: thousands would keep everybody waiting."""
    unknown = {f"taskNmber{number}": 1 for number in range(1000)}
    with pytest.raises(InvalidConfig) as refused:
        read_config(json.dumps({"jobName": "j", "image": "i", "taskRoles": [{"name": "w", "command": "x"}], **unknown}))
    *told, rest = refused.value.problems
    assert [problem.path for problem in told] == [f"/{name}" for name in list(unknown)[:200]]
    assert rest.message == "There are 1,000 problems; these are the first 200."
