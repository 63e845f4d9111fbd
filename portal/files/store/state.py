"""Knows whether the file store answers and takes files. A thread asks, so that nobody waits for a store that is
silent."""

from __future__ import annotations

import time

from portal.core.errors import LongshoreError
from portal.files.store import open_store, try_write
from portal.files.store.watch import Liveness

_WRITE_EVERY = 60.0  # seconds
_wrote_at = -_WRITE_EVERY


def is_up(wait: float = 0.0) -> bool | None:
    """Whether it is, as of the last seconds. None when this process does not know yet; it waits up to ``wait`` seconds
    for that."""
    fault = _watch.told(wait)
    return None if fault is None else not fault


def reason() -> str | None:
    """A sentence about what is wrong with the store; empty when nothing is."""
    return _watch.told()


def forget() -> None:
    """For tests: as in a process that has just started."""
    global _watch, _wrote_at
    _wrote_at = -_WRITE_EVERY
    _watch = Liveness(_ask)


def _ask() -> str:
    """Ask the store; a sentence about what is wrong. Every minute it must also take a file."""
    global _wrote_at
    try:
        store = open_store()
        store.stat("/")
        if time.monotonic() - _wrote_at > _WRITE_EVERY:
            try_write(store)
            _wrote_at = time.monotonic()
    except LongshoreError as error:
        return error.message
    return ""


_watch = Liveness(_ask)
