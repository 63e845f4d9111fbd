"""Logs of several tasks as one text and searched, where lines are millions or have no end."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs.logs.lines import LineIndex, view_of
from jobs.logs.times import no_times
from jobs.logs.together.download import as_text
from jobs.logs.together.expression import Expression
from jobs.logs.together.order import LineOrder
from jobs.logs.together.search import PIECE, grep, pieces
from jobs.logs.together.sources import MergedLogs, Opened, Source

NANO = 1_000_000_000


def together(*logs: bytes) -> MergedLogs:
    return MergedLogs([_opened(place, data) for place, data in enumerate(logs)])


def _opened(place: int, data: bytes) -> Opened:
    index = LineIndex()
    index.extend(data)
    view = view_of(index, lambda offset, limit: data[offset : offset + max(0, limit)])
    task = cast("Any", SimpleNamespace(label=f"w-{place}", attempt=SimpleNamespace(number=1)))
    return Opened(Source(place, task, "stdout"), view, no_times(view.line_count(), NANO + place), True)


def texts(of: MergedLogs) -> list[bytes]:
    """What is saved, by line, without the stamps."""
    data = b"".join(as_text(of, 0, of.total))
    assert data.endswith(b"\n")
    return [line.split(b" ", 1)[1] for line in data.removesuffix(b"\n").split(b"\n")]


@pytest.mark.parametrize("most", [1, 30, 1 << 20])
def test_what_is_saved_is_the_same_however_little_is_read_at_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.logs.together.download._MOST", most)
    assert texts(together(b"one\n\nthree" + b"!" * 50 + b"\n\nlast")) == [
        *(b"one", b"", b"three" + b"!" * 50, b"", b"last")
    ]
    assert texts(together(b"a\n" * 3, b"b")) == [*[b"w-0.1 stdout a"] * 3, b"w-1.1 stdout b"]


def test_a_line_that_never_ends_is_saved_in_pieces() -> None:
    data = b"x" * (8 << 20)
    tracemalloc.start()
    saved = sum(len(piece) for piece in as_text(together(data + b"\nend\n"), 0, 2))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert saved > len(data) and most < 2 * len(data)  # the log itself is one of them


def test_a_search_ranks_no_more_lines_than_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = 0

    def rank(self: LineOrder, log: int, line: int, rank: Any = LineOrder.rank) -> int:
        nonlocal ranked
        ranked += 1
        return int(rank(self, log, line))

    monkeypatch.setattr(LineOrder, "rank", rank)
    of = together(b"loss\n" * 1000, b"loss\nno\n" * 1000)
    rows, after = grep(of, Expression("loss"), 0, of.total, 10, lambda: False)
    assert [row.line.number for row in rows] == list(range(1, 11)) and after == 10
    assert ranked < 30
    more: list[int] = []
    while after is not None:
        rows, after = grep(of, Expression("loss"), after, of.total, 500, lambda: True)
        more += [row.source for row in rows]
    assert (more.count(0), more.count(1)) == (990, 1000)


def test_pieces_of_short_lines_are_small_and_together_all_of_the_log() -> None:
    of = together(b"long enough a line\n" * 300_000 + b"\n" * (1 << 20))
    view = of.logs[0].view
    found = list(pieces(view, 5, view.size))
    assert [begin for begin, _ in found] == [5, *(stop for _, stop in found[:-1])] and found[-1][1] == view.size
    assert all(view.number_at(stop) - view.number_at(begin) < 200_000 for begin, stop in found)
    assert list(pieces(together(b"x" * PIECE * 2).logs[0].view, 0, 2 * PIECE)) == [(0, PIECE), (PIECE, 2 * PIECE)]
    assert list(pieces(together(b"").logs[0].view, 0, 0)) == []
