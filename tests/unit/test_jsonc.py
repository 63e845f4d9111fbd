from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.config import jsonc

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])) | st.sampled_from(
    ["//x", "/* x */", 'a"b', "x,]", ",}", "\\", "a/b~c", "hdfs://nn:9000/x", ""]
)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
GAPS = st.sampled_from(["", " ", "\n", '// , ] } " x\n', '/* , " // */', "/*\n*/", "\t\r\n"])
JSONISH = st.text(st.sampled_from(list('{}[]",:/*\\ \n1e-.anultrNfI\x00\ud800')), max_size=40)


def refusal(text: str) -> jsonc.NotJson:
    with pytest.raises(jsonc.NotJson) as caught:
        jsonc.parse(text)
    return caught.value


def with_gaps(value: Any, draw: Any) -> str:
    """The value as text, with comments and trailing commas wherever they may stand."""

    def gap() -> str:
        return str(draw(GAPS))

    if isinstance(value, dict | list) and value:
        if isinstance(value, dict):
            items = [f"{gap()}{json.dumps(k)}{gap()}:{with_gaps(v, draw)}" for k, v in value.items()]
        else:
            items = [with_gaps(v, draw) for v in value]
        open_, close = "{}" if isinstance(value, dict) else "[]"
        return f"{gap()}{open_}{','.join(items)}{draw(st.sampled_from(['', ',']))}{gap()}{close}{gap()}"
    return f"{gap()}{json.dumps(value)}{gap()}"


@settings(max_examples=40)
@given(VALUES, st.data())
def test_comments_and_trailing_commas_never_change_the_value(value: Any, data: st.DataObject) -> None:
    assert jsonc.parse(with_gaps(value, data.draw)).value == value


@given(st.text() | JSONISH)
def test_blanking_keeps_length_lines_and_everything_it_does_not_blank(text: str) -> None:
    blanked = jsonc.blank(text)
    assert len(blanked) == len(text)
    assert all(
        after == before or (after == " " and before not in "\r\n") for before, after in zip(text, blanked, strict=True)
    )


@given(st.text() | JSONISH)
def test_it_raises_nothing_but_not_json(text: str) -> None:
    try:
        document = jsonc.parse(text)
    except jsonc.NotJson as refused:
        lines = re.split(r"\r\n?|\n", text)
        assert 1 <= refused.line <= len(lines)
        assert 1 <= refused.column <= len(lines[refused.line - 1]) + 2
        refused.v1.encode()
        refused.message.encode()
    else:
        assert document.faults is not None
        assert "" in document.places


@settings(max_examples=40)
@given(VALUES, st.data())
def test_every_position_points_at_the_token_of_its_value(value: Any, data: st.DataObject) -> None:
    document = jsonc.parse(with_gaps(value, data.draw))

    def check(path: str, part: Any) -> None:
        decoded, _ = json.JSONDecoder().raw_decode(document.text, document.offset(path))
        assert decoded == part
        if isinstance(part, dict):
            for key, inner in part.items():
                inner_path = f"{path}/{jsonc.escape(key)}"
                assert json.JSONDecoder().raw_decode(document.text, document.offset(inner_path, of_key=True))[0] == key
                check(inner_path, inner)
        elif isinstance(part, list):
            for at, inner in enumerate(part):
                check(f"{path}/{at}", inner)

    check("", json.loads(document.text))


@given(VALUES)
def test_plain_json_is_read_as_json_reads_it(value: Any) -> None:
    text = json.dumps(value, indent=1)
    assert jsonc.parse(text).value == value
    assert jsonc.decode(text) == value
    assert jsonc.parse(text).faults == ()


@pytest.mark.parametrize(
    "text, v1, line, column",
    [
        ("{", "Unexpected end of JSON input", 1, 2),
        ('{"a":"x', "Unexpected end of JSON input", 1, 6),
        ('{"image": x}', "Unexpected token x in JSON at position 10", 1, 11),
        ('{"a":1,\n "b":"x" "c":2}', "Unexpected string in JSON at position 17", 2, 10),
        ('{"a":1,,}', "Unexpected token , in JSON at position 7", 1, 8),
        ("[,]", "Unexpected token , in JSON at position 1", 1, 2),
        ("{,}", "Unexpected token , in JSON at position 1", 1, 2),
        ('{"a" 1}', "Unexpected number in JSON at position 5", 1, 6),
        ("{'a':1}", "Unexpected token ' in JSON at position 1", 1, 2),
        ("1 2", "Unexpected number in JSON at position 2", 1, 3),
        ('{"a":1}}', "Unexpected token } in JSON at position 7", 1, 8),
        ("// one\n/* two", "Unexpected token / in JSON at position 7", 2, 1),
        ('{"a":NaN}', "Unexpected token N in JSON at position 5", 1, 6),
        ('{"a":1,\r\n"b":-Infinity}', "Unexpected number in JSON at position 13", 2, 5),
        ('{"a":"\x00"}', "Unexpected token ? in JSON at position 6", 1, 7),
        ("{} // \ud800", "Unexpected token ? in JSON at position 6", 1, 7),
        ('"\\x"', "Unexpected token \\ in JSON at position 1", 1, 2),
        ("", "Unexpected end of JSON input", 1, 1),
    ],
)
def test_it_says_where_text_stops_being_json(text: str, v1: str, line: int, column: int) -> None:
    refused = refusal(text)
    assert (refused.v1, refused.line, refused.column) == (v1, line, column)
    assert refused.is_syntax


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"a":1 "b":2}', "A comma or a closing bracket is missing before this."),
        ('{"a":"x\n"}', "A line break or tab inside a text must be written as \\n or \\t."),
        ('{"a":tru}', "This is not a value; a text stands in double quotes."),
        ('{"a":}', "A value is missing here."),
        ('{"a":1', "The config ends too early: something is not closed."),
        ("{a:1}", "A key in double quotes must stand here."),
    ],
)
def test_it_says_what_to_do_in_plain_words(text: str, message: str) -> None:
    assert refusal(text).message == message


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 20_000, "[" * 65 + "]" * 65, "[" * 5_000 + "]" * 5_000])
def test_deep_nesting_is_a_plain_refusal(text: str) -> None:
    refused = refusal(text)
    assert not refused.is_syntax
    assert refused.message == "The config is nested deeper than 64 levels."


def test_64_levels_are_allowed() -> None:
    assert jsonc.parse("[" * 64 + "]" * 64).value


@pytest.mark.parametrize(
    "text, path, line, column, message",
    [
        ('{"a":1,\n "a":2}', "/a", 2, 2, "a stands here a second time."),
        ('{"x":[{"b~/":1,"b~/":1}]}', "/x/0/b~0~1", 1, 16, "b~/ stands here a second time."),
        ('{"a":"\\u0000"}', "/a", 1, 6, "This text contains the character NUL."),
        ('{"a":["\\ud83d"]}', "/a/0", 1, 7, "This text contains half of a surrogate pair."),
        ('{"\\udc00":1}', "/\udc00", 1, 2, "This name contains half of a surrogate pair."),
        ('{"a":1e999}', "/a", 1, 6, "This number is too large."),
        ('{"a":' + "9" * 5_000 + "}", "/a", 1, 6, "This number is too large."),
    ],
)
def test_it_finds_what_json_allows_and_a_config_must_not_have(
    text: str, path: str, line: int, column: int, message: str
) -> None:
    document = jsonc.parse(text)
    (fault,) = document.faults
    assert (fault.path, document.line_column(fault.at), fault.message) == (path, (line, column), message)


def test_whole_surrogate_pairs_and_escaped_backslashes_are_no_fault() -> None:
    assert jsonc.parse('{"a":"\\ud83d\\ude00", "b":"\\\\u0000"}').faults == ()


def test_a_byte_order_mark_is_passed_over() -> None:
    document = jsonc.parse('\ufeff{"a": 1}')
    assert document.value == {"a": 1}
    assert document.line_column(document.offset("/a")) == (1, 7)


def test_a_path_that_is_not_there_stands_where_its_parent_does() -> None:
    document = jsonc.parse('{"a": [{"b": 1}]}')
    assert document.offset("/a/0/c/d") == document.offset("/a/0") == 7


@pytest.mark.parametrize("text", ["NaN", "{", '{"a":1,"a":2}', "[" * 9_000, '"\\u0000"', "1e999", "[1,]", "// x\n1"])
def test_json_inside_a_string_is_strict(text: str) -> None:
    with pytest.raises(ValueError):
        jsonc.decode(text)


@pytest.mark.parametrize(
    "unit", ["/* ", '"a" ', '"\\', "1 ", "1 ,", ", ", "]", " ", "[1,", "1/ ", "\\", "/", ",\n"], ids=repr
)
def test_hostile_text_of_full_size_takes_no_time(unit: str) -> None:
    text = (unit * 102_400)[:102_400]
    with pytest.raises(jsonc.NotJson):  # quadratic work would take minutes and trip the suite's own patience
        jsonc.parse(text)


def test_a_comment_in_a_text_of_one_line_says_what_curl_did() -> None:
    with pytest.raises(jsonc.NotJson) as told:
        jsonc.parse('{"jobName": "a", // the name  "image": "i"}')
    assert (
        told.value.v1.startswith("Unexpected end of JSON input. All of it is one line")
        and "--data-binary" in told.value.v1
    )
    for other in ('{"a": 1,\n // b\n', '{"a": "http://b"', '{"a": /* b */ 1'):
        with pytest.raises(jsonc.NotJson) as told:
            jsonc.parse(other)
        assert "--data-binary" not in told.value.v1 + told.value.message
