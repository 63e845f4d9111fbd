"""A clock that never steps, for times that are compared within one process.

The machine's own clock is set forward and back, and differs from host to host. It is for rows and for people
(``django.utils.timezone.now``); nothing is decided by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_BEGAN = datetime.now(UTC), time.monotonic()


def steady() -> datetime:
    """Like the time of day; but only its differences within this process mean anything."""
    at, monotonic = _BEGAN
    return at + timedelta(seconds=time.monotonic() - monotonic)


def deadline(seconds: float) -> Callable[[], bool]:
    """A function that says whether so much time has passed from now on."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end
