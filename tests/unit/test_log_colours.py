"""Terminal codes become classes, and every colour can be read in both schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.logs import colours
from jobs.logs.colours import pieces


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("\x1b[32mok\x1b[0m rest", [("ok", "f2", "", ""), (" rest", "", "", "")]),
        ("\x1b[1;91mbad", [("bad", "a-bold f9", "", "")]),
        ("\x1b[38;5;208mo\x1b[39mn", [("o", "f208", "", ""), ("n", "", "", "")]),
        ("\x1b[3;4;9mall\x1b[23;24;29m", [("all", "a-italic a-struck a-under", "", "")]),
        ("\x1b[7minverse\x1b[27m.", [("inverse", "a-inverse", "", ""), (".", "", "", "")]),
        ("\x1b[7;31mred behind", [("red behind", "b1", "", "")]),
        ("\x1b[97;44mwhite on blue", [("white on blue", "b4 x15", "", "")]),
        ("\x1b[31;41mred on red", [("red on red", "b1", "", "")]),
        ("\x1b[48;2;1;2;3mdeep", [("deep", "b16", "#ffffff", "#010203")]),
        ("\x1b[38:2::255:0:0mtrue", [("true", "f196", "light-dark(#d90000,#ff4040)", "")]),
        ("\x1b[2mdim\x1b[2;33myellow", [("dim", "a-dim", "", ""), ("yellow", "f3", "", "")]),
        ("a\x1b[2Kb\x1b]0;title\x07c\x1b[38;5", []),
    ],
)
def test_it_understands(raw: str, wanted: list[tuple[str, str, str, str]]) -> None:
    text, found = pieces(raw)
    assert [tuple(piece) for piece in found] == wanted
    assert text == ("".join(piece[0] for piece in wanted) or "abc")


@given(st.text(alphabet="\x1b[0123456789;:mKa]\x07 "))
def test_no_code_is_shown_and_no_text_is_lost(raw: str) -> None:
    text, found = pieces(raw)
    assert "\x1b" not in text and text.count(" ") <= raw.count(" ")
    assert not found or "".join(piece[0] for piece in found) == text


def test_every_colour_can_be_read() -> None:
    wrong = []
    for colour in (*range(256), (12, 34, 56), (250, 250, 120), (128, 128, 128)):
        rgb = colours._rgb(colour)
        both = colours._in_both(rgb).removeprefix("light-dark(").removesuffix(")").split(",")
        for shown, behind in zip(both, colours._BEHIND, strict=True):
            red, green, blue = bytes.fromhex(shown[1:])
            if colours._contrast((red, green, blue), behind) < 4.5:
                wrong.append(f"{colour}: {shown} on {behind}")
        if colours._contrast(colours._ink_on(rgb), rgb) < 4.5:
            wrong.append(f"{colour}: the ink on it")
    assert wrong == []


def stylesheet() -> str:
    """The text of static/css/ansi.css, by the rules of jobs/logs/colours.py."""
    lines = ["/* Made by jobs/logs/colours.py: the colours of terminals. */"]
    for number in range(256):
        rgb = colours._rgb(number)
        ink = colours._hex(colours._ink_on(rgb))
        lines.append(f".ls-log .f{number}{{color:{colours._in_both(rgb)}}}")
        lines.append(f".ls-log .b{number}{{background:{colours._hex(rgb)};color:{ink}}}")
        lines.append(f".ls-log .x{number}{{color:{colours._hex(rgb)}}}")
    return "\n".join(lines) + "\n"


def test_the_stylesheet_is_the_one_that_is_made() -> None:
    kept = Path(__file__).parents[2] / "static/css/ansi.css"
    assert kept.read_text() == stylesheet(), "write stylesheet() of this file to static/css/ansi.css"
