"""Rows as CSV, of which a spreadsheet takes no text for a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO

from django.http import HttpResponse

_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")  # with these a formula begins


def sheet(rows: Iterable[Iterable[object]]) -> str:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    text = StringIO()
    csv.writer(text).writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def saved(text: str, name: str) -> HttpResponse:
    """The answer that a browser saves under this name."""
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    answer["Cache-Control"] = "no-store"
    return answer


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_RISKY) else cell
