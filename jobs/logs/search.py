"""Finds a text in a log of any size, a bounded time at once: an answer says where to go on.

Pure but for the clock it is given. Plain text, not a regular expression: Python's may take for ever on a line a user
chose, and nothing can stop it. Without a capital letter in it the text is looked for in any case. What is coloured is
found as it is read: codes of colours are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jobs.logs.lines import LogView

_PIECE = 1 << 20
_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,30}m")
_CODES = 256  # bytes of them that a text across the cut of two pieces may hold
MOST = 2000  # line numbers in one answer


@dataclass(frozen=True, slots=True)
class Found:
    """``lines``: numbers of the lines that have the text, each once, in order. ``cursor``: offset to go on from, None
    at the end of the log."""

    lines: tuple[int, ...]
    cursor: int | None


def search(view: LogView, text: str, *, start: int, out_of_time: Callable[[], bool], most: int = MOST) -> Found:
    """Looks from byte ``start`` on. Reads one piece at least, so a client that goes on gets to the end."""
    fold = text == text.lower()
    needle = text.lower().encode() if fold else text.encode()
    offset = max(0, start)
    number = view.number_at(offset)
    found: list[int] = []
    while offset < view.size:
        data = view.read(offset, _PIECE)
        if not data:
            break
        last = offset + len(data) >= view.size
        coloured = b"\x1b" in data
        read = _COLOUR.sub(b"", data) if coloured else data
        found += _in_piece(read.lower() if fold else read, needle, number, found[-1:], most - len(found))
        if len(found) >= most:
            return Found(tuple(found), _or_none(view, view.start_of(found[-1] + 1)))
        # A text may lie across the cut: the next piece begins almost a text's length earlier.
        codes = _CODES if coloured else 0
        taken = len(data) if last else max(1, len(data) - len(needle) - codes + 1)
        number += data.count(b"\n", 0, taken)
        offset += taken
        if out_of_time():
            counted = found[-1:] == [number]  # the line it stops in: go on behind it
            return Found(tuple(found), _or_none(view, view.start_of(number + 1) if counted else offset))
    return Found(tuple(found), None)


def _or_none(view: LogView, offset: int) -> int | None:
    return offset if offset < view.size else None


def _in_piece(data: bytes, needle: bytes, number: int, before: list[int], most: int) -> list[int]:
    """Numbers of the lines with a match, but for one counted ``before``. ``data`` begins in line ``number``."""
    found: list[int] = []
    counted = at = 0
    while len(found) < most and (at := data.find(needle, at)) >= 0:
        number += data.count(b"\n", counted, at)
        counted = at
        if not before or number > before[-1]:
            found.append(number)
        at = data.find(b"\n", at)  # one match a line is enough
        if at < 0:
            break
    return found
