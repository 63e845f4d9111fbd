"""What a .longshoreignore leaves out of an upload."""

from __future__ import annotations

import pytest

from base.core.errors import BadRequest
from jobs.submitting.ignored import MOST, left_out, paths_of
from tests.helpers import quick

PATHS = ["train.py", "data/a.npy", "data/keep.txt", "build/x", "src/build/x", "u/cache/b", "a.PYC", "b.pyc"]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ("", []),
        ("# nothing\n\n", []),
        ("*.pyc", ["b.pyc"]),
        ("data/", ["data/a.npy", "data/keep.txt"]),
        ("data/*\n!data/keep.txt", ["data/a.npy"]),
        ("/build", ["build/x"]),
        ("build", ["build/x", "src/build/x"]),
        ("**/cache/**", ["u/cache/b"]),
        ("*\r\n!*.py", ["data/a.npy", "data/keep.txt", "build/x", "src/build/x", "u/cache/b", "a.PYC", "b.pyc"]),
    ],
)
def test_it_reads_like_a_gitignore(patterns: str, left: list[str]) -> None:
    assert [PATHS[at] for at in left_out(patterns, PATHS)] == left


@pytest.mark.parametrize("patterns", ["a\n!", "a\n" + "x" * 501, "a\n" * 1_001])
def test_a_line_that_cannot_be_read_is_named(patterns: str) -> None:
    with pytest.raises(BadRequest, match="longshoreignore"):
        left_out(patterns, PATHS)


def test_no_pattern_takes_long() -> None:
    with quick(2, "a pattern that others try for ever"):
        assert left_out("*a" * 200 + "b", ["a" * 4000] * 20) == []


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", "[" + '"a",' * MOST + '"a"]', "[" * 5000])
def test_a_question_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        paths_of(text)


def test_patterns_that_are_too_much_together_are_refused_with_a_sentence() -> None:
    """Each of them can be read alone; RE2 has no memory for all of them as one."""
    line = "/".join(f"{chr(97 + at % 26)}*{at}?[a-z]*" for at in range(40))[:490]
    with pytest.raises(BadRequest, match="too many patterns"):
        left_out("\n".join(f"{at}{line}" for at in range(300)), ["a/b"])
