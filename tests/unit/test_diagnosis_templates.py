"""Message templates: what they fit, what they take, what they refuse, and that no line makes them slow."""

from __future__ import annotations

import pytest

from jobs.diagnosis.template import LONGEST, WIDEST, NoTemplate, template
from tests.helpers import quick


@pytest.mark.parametrize(
    ("text", "line", "values"),
    [
        ("No module named '{module}'", "ModuleNotFoundError: No module named 'a.b'", {"module": "a.b"}),
        (
            "Tried to allocate {asked*}. GPU {gpu#}",
            "Tried to allocate 2.00 GiB. GPU 3 has",
            {"asked": "2.00 GiB", "gpu": "3"},
        ),
        ("out   of memory", "an out of\tmemory error", {}),
        ("^KeyError: {what*}", "[rank0]: KeyError: 'lr'", {"what": "'lr'"}),
        ("^KeyError", "2026-11-20T10:00:00Z KeyError", {}),
        ("shape {{a}} {b}", "the shape {a} xy", {"b": "xy"}),
        ("{path}: not found", "sh: /opt/x: not found", {"path": "/opt/x"}),
        ("first {*} last{end*}", "first and last word", {"end": "word"}),
        ("exit code {code#}$", "exit code -11 ", {"code": "-11"}),
        ("a.b(c)", "xa.b(c)y", {}),
    ],
)
def test_it_fits_and_takes(text: str, line: str, values: dict[str, str]) -> None:
    assert template(text).match(line) == values


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("^KeyError", "a KeyError"),
        ("exit code {code#}$", "exit code 1 of 2"),
        ("out of memory", "Out Of Memory"),
        ("a.b(c)", "axb(c)"),
        ("first {*} last", "last first"),
        ("far away", "x" * WIDEST + "far away"),
    ],
)
def test_it_does_not_fit(text: str, line: str) -> None:
    assert template(text).match(line) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{a} {b}", "needs 4 characters"),
        ("abcd {a}{b}", "need some text between"),
        ("abcd {a} and {a}", "stands in it twice"),
        ("abcd {A}", "written twice"),
        ("abcd }", "written twice"),
        ("x" * (LONGEST + 1), "characters at most"),
        ("abcd " + "{*} x " * 12, "placeholders at most"),
    ],
)
def test_what_is_no_template_says_why(text: str, says: str) -> None:
    with pytest.raises(NoTemplate, match=says):
        template(text)


@pytest.mark.parametrize("text", ["aaaa{a*}a{b*}a{c*}a{d*}a{e*}aX", "{a}:aaaa{b}:{c}:{d}:X", "aaaa{*} a a a{*} a a aX"])
def test_no_line_makes_it_slow(text: str) -> None:
    one = template(text)
    with quick(0.5, f"three lines beside {text}"):
        for line in ("a" * 5000 + "aaaaX"[:4], "a:" * 2500, "a a " * 1250):
            assert one.match(line) is None
