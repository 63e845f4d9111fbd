"""Searches logs of any size for an expression, in pieces that are independent of each other.

A piece is a range of bytes; searching it finds the lines that begin in it. So any number of threads may work on one
log, each call takes a bounded time, and whoever is no longer wanted stops after a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from jobs.logs.lines import BLOCK, LogView
from jobs.logs.together.expression import Expression, plain
from jobs.logs.together.sources import LogRow, MergedLogs, rows_of

PIECE = 4 << 20
_MOST_LINES = 50_000  # of a piece, about
_LONGEST = 1 << 20  # bytes of a line behind the end of its piece; the rest of a longer line is not searched


def pieces(view: LogView, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The pieces of this range. They are smaller where lines are short, as each match takes time, so that whoever waits
    for a thread waits as long behind any log. Reads nothing."""
    while begin < end:
        stop = min(begin + PIECE, end)
        while stop - begin > BLOCK and _newlines(view, begin, stop) > _MOST_LINES:
            stop = begin + (stop - begin) // 2
        yield begin, stop
        begin = stop


def _newlines(view: LogView, begin: int, stop: int) -> int:
    """About how many newlines there are."""
    last = (view.size - 1) // BLOCK
    return view.blocks[min(stop // BLOCK, last)] - view.blocks[min(begin // BLOCK, last)]


def matching_lines(view: LogView, expression: Expression, begin: int, end: int) -> Iterator[int]:
    """The numbers of the lines that begin in this range of bytes and match."""
    number = view.number_at(begin - 1) + 1 if begin else 1
    start = view.start_of(number)
    stop = view.start_of(view.number_at(end - 1) + 1)
    data = plain(view.read(start, min(stop, end + _LONGEST) - start))
    counted = last = 0
    for place in expression.lines(data):
        number += data.count(b"\n", counted, place)
        counted = place
        if place < len(data) and last != number:  # behind the last newline is no line
            last = number
            yield number


def whole_lines(view: LogView) -> int:
    """Up to which byte the log has lines that will not change."""
    return view.start_of(view.newlines + 1)


@dataclass(slots=True)
class _Begun:
    """How far one log has been searched."""

    offset: int
    end: int
    lines: list[int] = field(default_factory=list)


def grep(
    together: MergedLogs, expression: Expression, rank: int, stop: int, limit: int, out_of_time: Callable[[], bool]
) -> tuple[list[LogRow], int | None]:
    """Up to ``limit`` matching lines, in order, with a rank from ``rank`` to before ``stop``, and the rank from which
    to go on; None at the end. It searches until ``out_of_time``, and one piece of each log at least."""
    begun = _begin(together, rank, stop)
    todo = set(begun)
    while todo:
        for place in sorted(todo):
            log, view = begun[place], together.logs[place].view
            until = min(log.offset + PIECE, log.end)
            # Of those behind the first ``limit`` none is in the answer, and a piece may have millions.
            log.lines += islice(matching_lines(view, expression, log.offset, until), limit + 1 - len(log.lines))
            log.offset = until
            if until >= log.end or len(log.lines) > limit:
                todo.discard(place)
        if out_of_time():
            break
    return _in_order(together, begun, expression, stop, limit)


def _begin(together: MergedLogs, rank: int, stop: int) -> dict[int, _Begun]:
    first, last = together.order.before(rank), together.order.before(stop)
    return {
        place: _Begun(log.view.start_of(first[place] + 1), log.view.start_of(last[place] + 1))
        for place, log in enumerate(together.logs)
        if first[place] < last[place]
    }


def _in_order(
    together: MergedLogs, begun: dict[int, _Begun], expression: Expression, stop: int, limit: int
) -> tuple[list[LogRow], int | None]:
    """What is certain: the matches before the first line that has not been searched in any log."""
    order = together.order
    horizon = stop
    for place, log in begun.items():
        view = together.logs[place].view
        line = view.number_at(log.offset - 1) + 1
        if log.offset < log.end and view.start_of(line) < log.end:
            horizon = min(horizon, order.rank(place, line - 1))
    ranked = sorted((order.rank(place, line - 1), place, line) for place, log in begun.items() for line in log.lines)
    certain = [match for match in ranked if match[0] < horizon]
    rows = [_row(together, place, line, expression) for _, place, line in certain[:limit]]
    if len(certain) > limit:
        return rows, certain[limit][0]
    return rows, horizon if horizon < stop else None


def _row(together: MergedLogs, place: int, line: int, expression: Expression) -> LogRow:
    log = together.logs[place]
    (row,) = rows_of(log.view.lines(line, 1), log.source.number, log.times.of(line - 1, 1), expression)
    return row
