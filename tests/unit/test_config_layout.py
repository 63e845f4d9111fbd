"""A config on one line is laid out on many: only white space between its pieces changes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from portal.job.config import is_packed, pretty_printed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_it_says_the_same_as_before_and_is_the_same_laid_out_again(value: object) -> None:
    text = json.dumps(value)
    assert json.loads(pretty_printed(text)) == value
    assert pretty_printed(pretty_printed(text)) == pretty_printed(text)


def test_numbers_comments_and_order_stay_as_they_were_sent() -> None:
    text = '{"b":1e3,/* why */"a":[],"c":{"d":[1,-2.50,],},}'
    wanted = '{\n  "b": 1e3,\n  /* why */"a": [],\n  "c": {\n    "d": [\n      1,\n      -2.50,\n    ],\n  },\n}\n'
    assert pretty_printed(text) == wanted


def test_what_is_no_json_stays_whole() -> None:
    assert pretty_printed("a: {b: [1, 2") == "a: {b: [1, 2"


def test_a_config_that_people_can_read_is_not_touched() -> None:
    lines = "".join(f'  "key{n}": {n},\n' for n in range(30))
    assert not is_packed("{\n" + lines + '  "command": "' + "x" * 300 + '"\n}\n')
    assert is_packed(json.dumps({"command": "x" * 300}))
