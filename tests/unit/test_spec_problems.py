"""How many problems of one config are told."""

from __future__ import annotations

import json

import pytest

from base.core.errors import InvalidConfig
from jobs.config import jsonc
from jobs.config.problems import MOST_READ
from jobs.config.spec import read_config


def test_of_thousands_of_problems_the_first_are_told_and_how_many_there_are() -> None:
    """Each takes about a millisecond to word and to place: thousands would keep everybody waiting."""
    unknown = {f"taskNmber{number}": 1 for number in range(1000)}
    with pytest.raises(InvalidConfig) as refused:
        read_config(json.dumps({"jobName": "j", "image": "i", "taskRoles": [{"name": "w", "command": "x"}], **unknown}))
    *told, rest = refused.value.problems
    assert [problem.path for problem in told] == [f"/{name}" for name in list(unknown)[:200]]
    assert rest.message == "There are 1,000 problems; these are the first 200."


@pytest.mark.parametrize(("wrong", "number"), [("1", 33_000), ("{}", 50_000)])
def test_of_tens_of_thousands_only_the_first_are_looked_for(
    wrong: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They took a second of CPU, of which the list that is told needs a tenth."""
    looks: list[str] = []
    offset = jsonc.Document.offset
    monkeypatch.setattr(
        jsonc.Document, "offset", lambda self, path, **more: looks.append(path) or offset(self, path, **more)
    )
    monkeypatch.setattr("jobs.config.problems.mend_of", lambda *_: pytest.fail("each looks at all roles"))
    roles = ",".join([wrong] * (33_000 if wrong == "1" else 25_000))
    with pytest.raises(InvalidConfig) as refused:
        read_config(f'{{"jobName":"j","image":"i","taskRoles":[{roles}]}}')
    *told, rest = refused.value.problems
    assert len(told) == 200 and told[0].path.startswith("/taskRoles/0")
    assert rest.message == f"There are {number:,} problems; these are the first 200."
    assert len(looks) <= MOST_READ


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


def test_a_value_with_signs_that_cannot_be_printed_stands_in_one_pair_of_quotes() -> None:
    with pytest.raises(InvalidConfig) as refused:
        read_config(json.dumps({"jobName": "j", "image": "x\xa0", "taskRoles": [{"name": "w", "command": "x"}]}))
    assert refused.value.problems[0].message == r'image is "x\xa0"; it must not contain white space.'
