"""A sweep is read and written out: names, values as they are written, comments in their places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.core.errors import InvalidConfig
from jobs.config import jsonc
from jobs.config.spec import read_config
from jobs.config.sweep import parameters
from jobs.config.sweep.expand import Variant, expand

TEXT = """{
  // rates and seeds
  "jobName": "train", "image": "x",
  "taskRoles": [{ "name": "w", "gpuNumber": "$$gpus$$", "command": "run --lr $$lr$$ /* not a comment */" }],
  "extras": { /* here */ "sweep": { "grid": { "lr": [1e-4, 3E-4], "gpus": "1..2" }, "atOnce": 2 }, "note": "}" }
}
"""


def expanded(text: str) -> list[Variant]:
    document = jsonc.parse(text)
    return expand(text, document, parameters.read(document))


def config(sweep: Any, command: str = "$$a$$", **more: Any) -> str:
    role = {"name": "w", "command": command}
    return json.dumps({"jobName": "j", "image": "x", "taskRoles": [role], **more, "extras": {"sweep": sweep}})


def test_a_grid_makes_all_combinations_and_the_text_stays() -> None:
    jobs = expanded(TEXT)
    assert [job.name for job in jobs] == ["train-01", "train-02", "train-03", "train-04"]
    assert [tuple(job.values.values()) for job in jobs] == [("1e-4", "1"), ("1e-4", "2"), ("3E-4", "1"), ("3E-4", "2")]
    first = TEXT.replace('"train"', '"train-01"').replace("$$gpus$$", "1").replace("$$lr$$", "1e-4")
    head, _, tail = first.partition('{ "grid"')
    mine = '{"of": "train", "number": 1, "values": {"lr": "1e-4", "gpus": "1"}}'
    assert jobs[0].config == head + mine + tail.partition("}, ")[2].partition("}")[2]
    assert read_config(jobs[3].config).task_roles[0].gpu_number == 2
    assert not parameters.is_sweep(jsonc.parse(jobs[0].config).value)


@pytest.mark.parametrize("name", ["atOnce", "stopAfterFailed"])
def test_its_numbers_are_whole_and_from_1(name: str) -> None:
    asked = {"grid": {"a": [1, 2]}}
    found = parameters.read(jsonc.parse(config({**asked, name: 3})))
    assert 3 in (found.at_once, found.stop_after) and None in (found.at_once, found.stop_after)
    for bad in (0, -1, True, "3", 1.5, 10**9):
        with pytest.raises(parameters.BadSweep, match=f"{name} must be a whole number from 1"):
            parameters.read(jsonc.parse(config({**asked, name: bad})))


def test_a_list_names_the_jobs_one_by_one() -> None:
    jobs = expanded(config({"list": [{"a": 1, "b": "x"}, {"b": 'q"uote', "a": 2}]}, "$$a$$ $$b$$"))
    assert [read_config(job.config).task_roles[0].command for job in jobs] == ["1 x", '2 q"uote']


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..4", ["1", "2", "3", "4"]),
        ("4 .. 1", ["4", "3", "2", "1"]),
        ("0..100 by 50", ["0", "50", "100"]),
        ("log(1e-5, 1e-2, 4)", ["1e-05", "0.0001", "0.001", "0.01"]),
    ],
)
def test_ranges(text: str, values: list[str]) -> None:
    assert list(parameters.span(text)) == values


@pytest.mark.parametrize(
    ("sweep", "path", "says"),
    [
        ({"grid": {}}, "/grid", "must be an object"),
        ({"grid": {"a": []}}, "/grid/a", "needs values"),
        ({"grid": {"a": "1..x"}}, "/grid/a", "is no range"),
        ({"grid": {"a": "log(0, 1, 3)"}}, "/grid/a", "is no range"),
        ({"grid": {"a": "1..1000000"}}, "/grid/a", "more than 200"),
        ({"grid": {"a": [1, 1]}}, "/grid/a/1", "twice"),
        ({"grid": {"a": [{}]}}, "/grid/a/0", "text or a number"),
        ({"grid": {"a b": [1]}}, "/grid/a b", "cannot name"),
        ({"grid": {"a": "1..15", "b": "1..15"}}, "/grid", "makes 225 jobs"),
        ({"grid": {"a": [1]}, "list": []}, "/list", "either"),
        ({"grid": {"a": [1]}, "more": 1}, "/more", "is not known"),
        ({"grid": {"a": [1]}, "atOnce": 0}, "/atOnce", "from 1"),
        ({"list": [{"a": 1}, {"b": 1}]}, "/list/1", "same parameters"),
        ({"list": {}}, "/list", "array of objects"),
        ({"grid": {"a": [1], "b": [1]}}, "/grid/b", "stands nowhere"),
        ({"grid": {"b": [1]}}, None, "no parameter a"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(sweep: Any, path: str | None, says: str) -> None:
    with pytest.raises(parameters.BadSweep) as bad:
        expanded(config(sweep))
    problem = bad.value.problems[0]
    assert says in problem.message
    assert problem.path == ("/taskRoles/0/command" if path is None else f"/extras/sweep{path}")


def test_secrets_are_never_filled_in_and_other_dollars_stay() -> None:
    text = config({"grid": {"a": [1]}}, "echo $$a$$ $$ ${a} $a")
    text = text.replace('"extras": {', '"extras": {"secrets": {"KEY": "pa$$w$$rd"}, ', 1)
    [job] = expanded(text)
    assert "pa$$w$$rd" in job.config and "echo 1 $$ ${a} $a" in job.config


def test_a_sweep_is_not_taken_for_one_job_and_a_note_of_that_name_is() -> None:
    with pytest.raises(InvalidConfig, match="sweeps"):
        read_config(config({"grid": {"a": [1]}}))
    for note in ("yes", ["grid"], {"my": "notes"}, None):
        read_config(config(note))


KEYS = st.sampled_from(["grid", "list", "a", "b", "atOnce"])
SCALARS = st.none() | st.booleans() | st.floats() | st.text(max_size=9)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=9
)


@given(VALUES)
def test_nothing_that_is_json_breaks_it(sweep: Any) -> None:
    text = config({"grid": sweep})
    try:
        document = jsonc.parse(text)
        jobs = expand(text, document, parameters.read(document))
    except (parameters.BadSweep, jsonc.NotJson):
        return
    assert 0 < len(jobs) <= parameters.MOST


@pytest.mark.parametrize(
    ("places", "says"),
    [
        (15_000, "The config of j-001 is larger than 100 kB with its values filled in."),
        (60, "The configs of its jobs are larger than 8 MB together. Make it several sweeps."),
    ],
)
def test_a_small_text_does_not_make_configs_without_measure(places: int, says: str) -> None:
    text = config({"grid": {"a": ["x" * 1000], "seed": "1..200"}}, "$$a$$" * places + "$$seed$$")
    with pytest.raises(parameters.BadSweep, match=says):
        expanded(text)


@pytest.mark.parametrize(
    ("sweep", "says"),
    [
        ({"grid": {"a": [1] * 48_000}}, '"a" has more than 200 values'),
        ({"grid": {f"p{at}": [1, 2] for at in range(5_500)}}, "has 5,500 parameters; the most is 100"),
        ({"list": [{f"p{at}": 1 for at in range(5_500)}]}, "has 5,500 parameters; the most is 100"),
        ({"grid": {f"p{at}": list(range(200)) for at in range(90)}}, "makes far too many jobs; the most is 200"),
    ],
)
def test_what_is_far_too_large_is_counted_before_it_is_compared(sweep: Any, says: str) -> None:
    document = jsonc.parse(config(sweep))
    with pytest.raises(parameters.BadSweep) as refused:
        parameters.read(document)
    assert says in str(refused.value).replace("a has", '"a" has')
    assert len(refused.value.problems) == 1


def test_a_sweep_of_very_many_roles_is_refused_before_its_configs_are_read() -> None:
    roles = [{"name": f"w{at}", "command": "$$a$$"} for at in range(300)]
    with pytest.raises(parameters.BadSweep, match="more than 20,000 roles together"):
        expanded(config({"grid": {"a": "1..200"}}, taskRoles=roles))


def test_the_guide_says_that_each_parameter_must_stand_in_the_config() -> None:
    with pytest.raises(InvalidConfig) as refused:
        expanded(config({"grid": {"a": [1], "seed": [1]}}))
    guide = " ".join((Path(__file__).parents[2] / "docs/use/sweeps.md").read_text().split())
    assert refused.value.problems[0].message in guide
