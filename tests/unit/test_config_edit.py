"""Single values of a config are changed in its text, and nothing else of it."""

from __future__ import annotations

import pytest

from jobs.config.edit import CHANGE, ChangeAsked, NotEditable, changes_of, with_values
from jobs.config.spec import JobSpec
from tests.builders import make_config

CASES = {
    "a number": ('{"a": 4}', {"/a": 2}, '{"a": 2}'),
    "a number written as a text": ('{"a": "4", "b": 1}', {"/a": 2}, '{"a": 2, "b": 1}'),
    "a text": ('{"a": "x\\"y"}', {"/a": "z"}, '{"a": "z"}'),
    "a flat object": (
        '{"a": {"b": 2 /* } */, "c": "}"}, "d": 1}',
        {"/a": {"prefer": 2}},
        '{"a": {"prefer": 2}, "d": 1}',
    ),
    "one of a list": ('{"a": [{"b": 1}, {"b": 2}]}', {"/a/1/b": 3}, '{"a": [{"b": 1}, {"b": 3}]}'),
    "comments stay": ('{"a": 1, // "a": 1\n}', {"/a": 2}, '{"a": 2, // "a": 1\n}'),
    "what is missing comes first": ('{\n  "a": 1\n}', {"/b": "x"}, '{\n  "b": "x",\n  "a": 1\n}'),
    "into an empty one": ("{}", {"/b": 1}, '{ "b": 1}'),
    "without a byte order mark": ('\ufeff{"a": 1}', {"/a": 2}, '{"a": 2}'),
    "letters of all kinds": ('{"a": "x"}', {"/a": "größer"}, '{"a": "größer"}'),
    "into an object that is missing": ('{"a": 1}', {"/b/c": 2, "/b/d": True}, '{ "b": { "d": true,"c": 2},"a": 1}'),
    "several": ('{"a": 10, "b": 20}', {"/a": 1, "/b": 2}, '{"a": 1, "b": 2}'),
}


@pytest.mark.parametrize("case", CASES)
def test_it_changes_one_value_and_nothing_else(case: str) -> None:
    text, values, expected = CASES[case]
    assert with_values(text, values) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["a: 1", '{"a": {"b": 1}}', '{"a": [1]}', '{"c": "[]"}'])
def test_what_cannot_be_changed_in_the_text_is_said(text: str) -> None:
    with pytest.raises(NotEditable):
        with_values(text, {"/a": 1} if '"c"' not in text else {"/c/0/a": 1})


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({"gpuNumber": 2}, {"/taskRoles/0/gpuNumber": 2, "/taskRoles/1/gpuNumber": 2}),
        ({"gpuNumber": 4}, {}),
        ({"taskNumber": {"role1": 1}}, {"/taskRoles/1/taskNumber": 1}),
        ({"gpuType": "V100"}, {"/gpuType": "V100"}),
        ({"virtualCluster": "nlp"}, {"/virtualCluster": "nlp"}),
        ({"maxRunSeconds": 60}, {"/extras/maxRunSeconds": 60}),
        ({"preemptible": True}, {"/extras/preemptible": True}),
        ({"topology": {"prefer": 2}}, {"/extras/topology": {"prefer": 2}}),
    ],
)
def test_a_change_is_made_by_these_values(change: ChangeAsked, values: dict[str, object]) -> None:
    assert changes_of(JobSpec.from_json(make_config(roles=2, tasks=3, gpus=4)), change) == values


@pytest.mark.parametrize("text", ["[]", '{"gpuNumber": true}', '{"more": 1}', '{"taskNumber": {"w": 0}}', "{"])
def test_only_changes_of_the_config_are_taken(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        CHANGE.validate_json(text)
