"""Searching: each matching line once, however the log is cut into pieces, and no expression that takes for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.core.errors import BadRequest
from jobs.logs.lines import BLOCK, LineIndex, LogView, view_of
from jobs.logs.together import expression as expressions
from jobs.logs.together.expression import Expression
from jobs.logs.together.search import matching_lines, pieces, whole_lines
from tests.helpers import examples, quick


def view(data: bytes) -> LogView:
    index = LineIndex()
    index.extend(data)
    return view_of(index, lambda offset, limit: data[offset : offset + limit])


def found(data: bytes, text: str, piece: int = 1 << 22) -> list[int]:
    log, expression = view(data), Expression(text)
    return [
        number
        for begin in range(0, log.size, piece)
        for number in matching_lines(log, expression, begin, min(begin + piece, log.size))
    ]


LINES = st.lists(st.text("abXé1 .", max_size=8), max_size=30)
EXPRESSIONS = st.sampled_from(["a", "^a", "b$", "a|b", r"a+b*1", r"\d", "X", "é", r"^$", ".", r"\.", "[^a]1", r"\sb"])


@settings(max_examples=examples(150), deadline=None)
@given(LINES, EXPRESSIONS, st.integers(1, 50), st.booleans())
def test_it_is_what_python_finds_line_by_line_in_pieces_of_any_size(
    lines: list[str], text: str, piece: int, ends: bool
) -> None:
    data = ("\n".join(lines) + ("\n" if ends else "")).encode()
    flags = 0 if any(sign.isupper() for sign in text) else re.IGNORECASE
    known = data.decode().split("\n")[: view(data).line_count()]
    assert found(data, text, piece) == [n for n, line in enumerate(known, 1) if re.search(text, line, flags)]


def test_capitals_of_classes_do_not_make_it_strict() -> None:
    assert found(b"LOSS 1\nloss x\n", r"loss \S") == [1, 2]
    assert found(b"LOSS 1\nloss x\n", r"LOSS \S") == [1]


def test_colours_are_passed_over_and_long_lines_searched_near_their_beginning() -> None:
    assert found(b"a\nloss \x1b[32m0.\x1b[1m25\x1b[0m\n", r"s 0\.25") == [2]
    long = b"x" * (3 * BLOCK) + b"needle"
    assert found(long + b"\nneedle\n" + long, "needle", BLOCK) == [1, 2, 3]


def test_a_line_that_is_being_written_waits() -> None:
    log = view(b"one\ntwo\nthr")
    assert whole_lines(log) == 8 and whole_lines(view(b"")) == 0


@pytest.mark.parametrize(
    "text", ["(a*)*b", "(x+x+)+y", "(.*.*.*.*)=z", "(a|a)*c", "(.{0,200}){4}q", "^(([a-z])+.)+[A-Z]$"]
)
def test_expressions_that_never_end_elsewhere_end_here(text: str) -> None:
    data = b"a" * 300_000 + b"\n" + b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * 10_000
    with quick(3, f"a search for {text}"):
        assert found(data, text) == []


@pytest.mark.parametrize(
    "text,says",
    [
        ("(a", "missing"),
        ("a)|(b", "unexpected"),
        ("a{2000}", "repetition"),
        (r"(a)\1", "References to groups"),
        ("(?=a)", "Look-around"),
        ("*", "no argument"),
        ("", "1 to 200"),
        ("x" * 201, "1 to 200"),
        ("((a{100}){100}){100}", "repetition"),
    ],
)
def test_what_is_no_expression_is_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        Expression(text)


def test_marks_are_places_as_a_browser_counts_them() -> None:
    assert Expression("b").spans("a😀b é b") == [(3, 4), (7, 8)]
    assert Expression("z*").spans("abc") == [] and len(Expression("a").spans("a" * 500)) == 100


def test_no_piece_has_many_more_lines_than_another_however_short_they_are() -> None:
    """Others search between two pieces, so none of them may take long."""
    log = view(b"x\n" * 400_000 + b"y" * (1 << 20))
    found = list(pieces(log, 0, log.size))
    assert (found[0][0], found[-1][1]) == (0, log.size)
    assert max(sum(1 for _ in matching_lines(log, Expression("."), *piece)) for piece in found) <= 100_000


def test_what_is_remembered_of_expressions_fits_into_memory() -> None:
    assert expressions._compiled.cache_parameters()["maxsize"] * expressions._MEMORY <= 256 << 20
