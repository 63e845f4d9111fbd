"""A raw log line as people read it: folded progress bars, terminal codes as styles, never too long.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jobs.logs.colours import Piece, pieces

SHOWN = 16 * 1024  # bytes of one line that a page gets; the download has the rest

Kind = Literal["", "err", "warn"]

_ERROR = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|Traceback|[A-Za-z]*(?:Error|Exception):)")
_WARNING = re.compile(r"\b(?:WARN|WARNING|Warning:|[A-Za-z]+Warning:)")


@dataclass(frozen=True, slots=True)
class Line:
    """``number`` counts from 1; ``start`` and ``end`` are byte offsets, ``end`` behind the newline. ``partial``: its
    newline has not been written yet. ``note`` says what of the line is not in ``text``."""

    number: int
    text: str
    start: int
    end: int
    partial: bool = False
    note: str = ""
    kind: Kind = ""
    pieces: tuple[Piece, ...] = ()  # of the text, when it has colours or styles

    def as_json(self) -> dict[str, Any]:
        """Without what is empty, as sent to the page."""
        return {key: value for key, value in asdict(self).items() if value or key in ("text", "start")}


def show(number: int, start: int, end: int, head: bytes, tail: bytes, *, partial: bool) -> Line:
    """``head`` and ``tail`` are the first and the last SHOWN bytes at most of the line, without its newline; for a
    shorter line both are the whole of it."""
    size = end - start - (0 if partial else 1)
    raw, note = (head, "") if size <= SHOWN else (head, f"… {_size(size)} line, download to see all")
    tail = tail.removesuffix(b"\r")  # a line of a text file from Windows
    if b"\r" in tail:
        raw, note = _last_state(tail, whole=size <= SHOWN)
    text, dressed = pieces(raw.decode("utf-8", "replace"))
    return Line(number, text, start, end, partial, note, _kind(text), dressed)


def _last_state(tail: bytes, *, whole: bool) -> tuple[bytes, str]:
    """A program that ends its updates with a carriage return means each to overwrite the one before."""
    states = [state for state in tail.split(b"\r") if state]
    folded = len(states) - 1
    if not whole:
        return (states[-1] if states else b""), "earlier updates of one progress bar folded"
    if folded <= 0:
        return (states[0] if states else b""), ""
    return states[-1], f"{folded} update{'s' if folded > 1 else ''} of one progress bar folded"


def _kind(text: str) -> Kind:
    start = text[:400]  # further in it is a word of the data, not of the logger
    if _ERROR.search(start):
        return "err"
    return "warn" if _WARNING.search(start) else ""


def _size(size: int) -> str:
    for unit, divisor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= divisor:
            return f"{size / divisor:.1f} {unit}"
    return f"{size} bytes"
