"""Reports at the start whether the file store takes files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portal.core.errors import LongshoreError
from portal.files.store import open_store, try_write


def try_store(sender: object = None, say: Callable[[str], None] = print, **_: Any) -> None:
    """Receiver of portal.core.signals.first_start."""
    try:
        try_write(open_store())
    except LongshoreError as error:
        say(f"Files cannot be kept yet. {error.message} Jobs run, and their files are written later.")
