"""Turns a raw log line into what people read: progress bars folded, terminal codes as styles, long lines cut. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from base.core import words
from jobs.logs.colours import Piece, pieces

SHOWN = 16 * 1024  # bytes of one line that a page gets; the download has the rest

Kind = Literal["", "err", "warn"]

_ERROR = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|Traceback|[A-Za-z]*(?:Error|Exception):)")
_WARNING = re.compile(r"\b(?:WARN|WARNING|Warning:|[A-Za-z]+Warning:)")


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line. ``number`` counts from 1; ``start`` and ``end`` are byte offsets, ``end`` behind the newline.
    ``partial``: the newline has not been written yet. ``note`` says what ``text`` leaves out."""

    number: int
    text: str
    start: int
    end: int
    partial: bool = False
    note: str = ""
    kind: Kind = ""
    pieces: tuple[Piece, ...] = ()  # of the text, when it has colours or styles

    def as_json(self) -> dict[str, Any]:
        """What the page gets, without what is empty."""
        row: dict[str, Any] = {"number": self.number, "text": self.text, "start": self.start, "end": self.end}
        more = {"partial": self.partial, "note": self.note, "kind": self.kind, "pieces": self.pieces}
        return row | {name: value for name, value in more.items() if value}


def show(number: int, start: int, end: int, head: bytes, tail: bytes, *, partial: bool) -> TextLine:
    """Return the line to show. ``head`` and ``tail`` are its first and its last SHOWN bytes, without the newline; of a
    shorter line both are the whole."""
    size = end - start - (0 if partial else 1)
    raw, note = (head, "") if size <= SHOWN else (head, f"… {words.size(size)} line, download to see all")
    tail = tail.removesuffix(b"\r")  # part of the line end in files from Windows
    if b"\r" in tail:
        raw, note = _last_state(tail, whole=size <= SHOWN)
    text, dressed = pieces(raw.decode("utf-8", "replace"))
    return TextLine(number, text, start, end, partial, note, _kind(text), dressed)


def _last_state(tail: bytes, *, whole: bool) -> tuple[bytes, str]:
    """The last update of a progress bar, and a note on the others: a program that writes a carriage return overwrites
    the line."""
    states = [state for state in tail.split(b"\r") if state]
    folded = len(states) - 1
    if not whole:
        return (states[-1] if states else b""), "earlier updates of one progress bar folded"
    if folded <= 0:
        return (states[0] if states else b""), ""
    return states[-1], f"{folded} update{'s' if folded > 1 else ''} of one progress bar folded"


def _kind(text: str) -> Kind:
    start = text[:400]  # a level further in belongs to the data, not to the logger
    if _ERROR.search(start):
        return "err"
    return "warn" if _WARNING.search(start) else ""
