"""Reads what a viewer of a log has not got, as server-sent events: lines from a place on, or that many were skipped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from jobs.logs.lines import LogView
from jobs.logs.together.expression import Expression
from jobs.logs.together.sources import rows_of

BATCH_LINES = 500
BATCH_BYTES = 64 * 1024
BEHIND_BYTES, BEHIND_LINES = 1 << 20, 5000  # a viewer that has more than this to come ...
KEPT_LINES = 500  # ... skips to so many lines before the end


@dataclass(slots=True)
class LogCursor:
    """How far a viewer is: the next line to send is line ``number``, which begins at ``offset`` and was sent up to byte
    ``shown``."""

    offset: int
    number: int
    shown: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Events without their ids, none when all is sent, and the place behind them."""

    events: tuple[str, ...]
    after: LogCursor | None


def reaches(view: LogView, line: int | None, offset: int | None) -> bool:
    """Whether the log has the line or offset. A spool that was dropped and is filled again may still be shorter than
    the viewer's position."""
    return view.size >= offset if offset is not None else view.newlines + 1 >= (line or 1)


def cursor_at(view: LogView, line: int | None, offset: int | None) -> LogCursor:
    """Return the viewer's position at the start. The offset wins over the line: a client that reconnects sends it. Both
    may be any number."""
    number = view.number_at(offset) if offset is not None else max(1, min(line or 1, view.newlines + 1))
    return LogCursor(view.start_of(number), number)


def batch_of(view: LogView, cursor: LogCursor, source: int, expression: Expression | None) -> Batch:
    """The next events."""
    if view.size <= max(cursor.offset, cursor.shown):
        return Batch((), cursor)
    skip = _skip(view, cursor)
    if skip and not cursor.shown:
        after = LogCursor(view.start_of(skip["to"] + 1), skip["to"] + 1)
        return Batch((event("skip", {"s": source, **skip}),), after)
    # A line that was shown in part is completed before any skip.
    lines = view.lines_at(cursor.offset, cursor.number, 1 if skip else BATCH_LINES, BATCH_BYTES)
    if not lines:
        return Batch((), cursor)
    first, last = lines[0].number, lines[-1]
    times = view.times.of(first - 1, len(lines)) if view.times else [0] * len(lines)
    rows = [row.as_json() for row in rows_of(lines, source, times, expression)]
    after = LogCursor(last.start, last.number, last.end) if last.partial else LogCursor(last.end, last.number + 1)
    return Batch((event("lines", rows),), after)


def _skip(view: LogView, cursor: LogCursor) -> dict[str, int] | None:
    """The lines to leave out; None when the viewer is not far behind."""
    if view.size - cursor.offset <= BEHIND_BYTES and view.newlines - cursor.number <= BEHIND_LINES:
        return None
    target = view.newlines + 2 - KEPT_LINES
    if target <= cursor.number:
        return None  # few lines, but long ones: they are cut anyway
    return {"from": cursor.number, "to": target - 1, "lines": target - cursor.number}


def event(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
