"""How much CPU each user may spend on questions that are asked while they type: a check, a sweep, patterns.

Nobody who types reaches it. Who has spent it waits a moment, and the others are not slowed down. A question counts HELD
seconds from its begin on, so that many at the same moment do not all find something left, and what it took once it is
answered. Each web process has its own count: of LONGSHORE_WEB_PROCESSES a user may fill as many cores, not more.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

from base.core.errors import TooManyRequests

SECONDS = 10.0  # that may be spent at once
BACK = 0.25  # seconds that come back in each second
HELD = 1.0  # seconds that a question counts while it is answered; few take longer
_MOST = 10_000  # users that are remembered

_spent: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by user: when, and how much was spent by then
_counting = threading.Lock()


@contextmanager
def question(username: str) -> Iterator[None]:
    """The work of one question. Raises TooManyRequests before it begins, where nothing is left."""
    with _counting:
        if (over := _now(username)) >= SECONDS:
            wait = ceil((over - SECONDS) / BACK) + 1
            raise TooManyRequests(
                f"You have asked for so many checks that no time is left for this one. Try again in {wait} seconds.",
                wait,
            )
        _add(username, HELD)
    began = time.thread_time()
    try:
        yield
    finally:
        with _counting:
            _add(username, time.thread_time() - began - HELD)


def forget() -> None:
    _spent.clear()


def _add(username: str, seconds: float) -> None:
    _spent[username] = time.monotonic(), max(0.0, _now(username) + seconds)
    _spent.move_to_end(username)
    while len(_spent) > _MOST:
        _spent.popitem(last=False)


def _now(username: str) -> float:
    """What is spent and has not come back."""
    at, spent = _spent.get(username, (0.0, 0.0))
    return max(0.0, spent - BACK * (time.monotonic() - at))
