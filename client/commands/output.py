"""What the commands print: sentences to stderr, answers to stdout."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

_COLOURS = {"RUNNING": "blue", "SUCCEEDED": "green", "FAILED": "red", "WAITING": "yellow"}


def say(sentence: str) -> None:
    click.echo(f"longshore: {sentence}", err=True)


def answer(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as they must be; the last one is cut where a terminal ends."""
    lines = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    most = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines:
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        click.echo(coloured(text[:most] if most else text))


def coloured(text: str) -> str:
    for word, colour in _COLOURS.items():
        text = text.replace(word, click.style(word, colour), 1)
    return text


def moment(milliseconds: int | None) -> str:
    """In local time; the date where it is not today."""
    if not milliseconds:
        return "-"
    at, now = time.localtime(milliseconds / 1000), time.localtime()
    return time.strftime("%H:%M" if at[:3] == now[:3] else "%b %d %H:%M", at)


def lasting(begin: int | None, end: int | None) -> str:
    """From one moment to another, or until now."""
    if not begin:
        return "-"
    seconds = max(0, int((end or time.time() * 1000) - begin) // 1000)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {seconds % 60:02}s" if minutes else f"{seconds}s"
