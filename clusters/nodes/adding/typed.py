"""Reads texts that the forms of nodes and of clusters both have: lines of labels, numbers, files with keys."""

from __future__ import annotations

from django.http import HttpRequest

KEYS_LIVE = 3600  # seconds that keys sent with a test may be used by the next form
MOST_OF_A_FILE = 65_536  # bytes
NOT_PAIRS = "Write one name=value a line."


def number(text: str) -> int | str:
    """What is no number stays the text that it is: the API's own checks refuse it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text


def pairs(text: str) -> dict[str, str]:
    """{name: value} of lines ``name=value``."""
    parts = (line.partition("=") for line in _lines(text))
    return {name.strip(): value.strip() for name, _, value in parts}


def are_pairs(text: str) -> bool:
    return all("=" in line for line in _lines(text))


def file_text(request: HttpRequest, field: str) -> str:
    """The text of an uploaded file, "" without one. One byte more than it may have is read, so that its check fails."""
    file = request.FILES.get(field)
    return file.read(MOST_OF_A_FILE + 1).decode(errors="replace") if file is not None else ""


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
