"""Finds a text in a log of any size, a bounded time at once: an answer says where to go on.

Pure but for the clock it is given. Plain text, not a regular expression: Python's may take for ever on a line a user
chose, and nothing can stop it. Without a capital letter in it the text is looked for in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobs.log_lines import LogView

_PIECE = 1 << 20
MOST = 2000  # line numbers in one answer


@dataclass(frozen=True, slots=True)
class Found:
    """``lines``: numbers of the lines that have the text, each once, in order. ``cursor``: offset to go on from, None at
    the end of the log."""

    lines: tuple[int, ...]
    cursor: int | None


def search(view: LogView, text: str, *, start: int, out_of_time: Callable[[], bool], most: int = MOST) -> Found:
    """Looks from the line that holds ``start`` on. Reads at least one piece, so a client that goes on gets to the end."""
    needle = text.encode()
    fold = text == text.lower()
    number = view.number_at(start)
    offset = view.start_of(number)
    found: list[int] = []
    while offset < view.size:
        data = view.read(offset, _PIECE)
        if not data:
            break
        last = offset + len(data) >= view.size
        found += _in_piece(data.lower() if fold else data, needle.lower() if fold else needle, number, found)
        # A text may lie across the cut: the next piece begins a text's length earlier.
        taken = len(data) if last else max(1, len(data) - len(needle) + 1)
        number += data.count(b"\n", 0, taken)
        offset += taken
        if not last and (len(found) >= most or out_of_time()):
            # Go on behind the line that was being read if it is counted already.
            if found and found[-1] == number:
                offset = view.start_of(number + 1)
            return Found(tuple(found), offset if offset < view.size else None)
    return Found(tuple(found), None)


def _in_piece(data: bytes, needle: bytes, number: int, before: list[int]) -> list[int]:
    found: list[int] = []
    counted = at = 0
    while (at := data.find(needle, at)) >= 0:
        number += data.count(b"\n", counted, at)
        counted = at
        if number not in (found[-1:] or before[-1:]):
            found.append(number)
        newline = data.find(b"\n", at)
        if newline < 0:
            break
        at = newline  # one match a line is enough
    return found
