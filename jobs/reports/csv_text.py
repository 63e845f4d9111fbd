"""Writes tables as CSV (RFC 4180)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

from django.http import HttpResponse

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_answer(name: str, head: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> HttpResponse:
    """A file to download. A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    answer = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    answer["Cache-Control"] = "no-store"
    return answer


def _cell(value: str | float | None) -> str | float | None:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
