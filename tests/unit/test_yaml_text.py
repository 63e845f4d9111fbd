from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from jobs.config import yaml_text
from jobs.config.jsonc import MAX_DEPTH
from jobs.config.spec import MAX_CONFIG_BYTES


@pytest.mark.parametrize("opening", ["[", "{", "a: [[a, "])
def test_brackets_are_read_no_deeper_than_a_config_may_be(opening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them take the library minutes: it must not be asked for the rest."""
    began: list[object] = []
    parse = yaml.parse

    def counted(text: str, Loader: type[yaml.SafeLoader]) -> Iterator[object]:
        for event in parse(text, Loader=Loader):
            began.append(event)
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    assert yaml_text.to_json(opening * 2000) is None
    assert len(began) < 4 * MAX_DEPTH


def test_what_is_too_long_for_a_config_is_not_read() -> None:
    assert yaml_text.to_json("a: " + "x" * MAX_CONFIG_BYTES) is None
    assert yaml_text.to_json("a: [[b]]") == '{\n  "a": [\n    [\n      "b"\n    ]\n  ]\n}'


@pytest.mark.parametrize("value", ['!!int ""', '!!float ""', "!!bool x", "!!timestamp x", "!!int 0b", "2001-99-99"])
def test_a_value_that_is_not_of_its_tag_is_no_config(value: str) -> None:
    assert yaml_text.to_json(f"jobName: {value}") is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("!!binary aGVsbG8=", "no !!binary"),
        ("!!set {x, y}", "no !!set"),
        ("!foo 5", "line 1: could not determine a constructor for the tag '!foo'"),
        ("&a 1\nb: *a", "an alias"),
        ("9" * 5000, "too many digits"),
        ("[", "line 1: "),
        ("\x01", "special characters are not allowed"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(value: str, says: str) -> None:
    with pytest.raises(yaml_text.NotYaml, match=re.escape(says)):
        yaml_text.converted(f"jobName: {value}")


def test_a_date_stays_a_text() -> None:
    assert yaml_text.converted("jobName: 2024-05-06") == '{\n  "jobName": "2024-05-06"\n}'
