"""Searches a log of any size for a text. One call takes a bounded time and says where the next one goes on.

The text is no regular expression: Python's may take for ever on a line that a user chose, and nothing can stop them.
A text without capital letters matches in any case. Codes of colours in the log are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jobs.logs.lines import LogView

_PIECE = 1 << 20
_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,30}m")
_CODES = 256  # bytes of colour codes in a match that lies across two pieces; more are not seen
MOST = 2000  # line numbers in one answer


@dataclass(frozen=True, slots=True)
class Matches:
    """``lines``: the numbers of the lines that have the text, each once, in order. ``cursor``: the offset to go on
    from; None at the end of the log."""

    lines: tuple[int, ...]
    cursor: int | None


def search(view: LogView, text: str, *, start: int, out_of_time: Callable[[], bool], most: int = MOST) -> Matches:
    """The matches from byte ``start`` on, until ``out_of_time`` or ``most`` lines. It reads one piece at least, so a
    client that goes on gets to the end."""
    fold = text == text.lower()
    needle = text.lower().encode() if fold else text.encode()
    offset = max(0, start)
    number = view.number_at(offset)
    lines: list[int] = []
    while offset < view.size:
        data = view.read(offset, _PIECE)
        if not data:
            break
        last = offset + len(data) >= view.size
        coloured = b"\x1b" in data
        plain = _COLOUR.sub(b"", data) if coloured else data
        lines += _in_piece(plain.lower() if fold else plain, needle, number, lines[-1:], most - len(lines))
        if len(lines) >= most:
            return Matches(tuple(lines), _or_none(view, view.start_of(lines[-1] + 1)))
        # A match may lie across two pieces: the next piece begins almost the text's length earlier.
        codes = _CODES if coloured else 0
        taken = len(data) if last else max(1, len(data) - len(needle) - codes + 1)
        number += data.count(b"\n", 0, taken)
        offset += taken
        if out_of_time():
            counted = lines[-1:] == [number]  # the line in which it stops has a match: go on behind that line
            return Matches(tuple(lines), _or_none(view, view.start_of(number + 1) if counted else offset))
    return Matches(tuple(lines), None)


def _or_none(view: LogView, offset: int) -> int | None:
    return offset if offset < view.size else None


def _in_piece(data: bytes, needle: bytes, number: int, before: list[int], most: int) -> list[int]:
    """Numbers of the lines with a match, without the last of ``before``. ``data`` begins in line ``number``."""
    lines: list[int] = []
    counted = at = 0
    while len(lines) < most and (at := data.find(needle, at)) >= 0:
        number += data.count(b"\n", counted, at)
        counted = at
        if not before or number > before[-1]:
            lines.append(number)
        at = data.find(b"\n", at)  # one match a line is enough
        if at < 0:
            break
    return lines
