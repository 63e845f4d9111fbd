"""How much CPU each user may spend on questions that are asked while they type, as a check, a sweep or patterns, and on
large jobs that they submit.

Nobody who types reaches it, and small jobs do not count: a script may submit thousands of them. Who has spent it waits
a moment, and the others are not slowed down. A question counts HELD seconds from its begin on, so that many at the same
moment do not all find something left, and what it took once it is answered. Each web process has its own count: of
LONGSHORE_WEB_PROCESSES a user may fill as many cores, not more.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any

from base.core.errors import TooManyRequests

SECONDS = 10.0  # that may be spent at once
BACK = 0.25  # seconds that come back in each second
HELD = 1.0  # seconds that a question counts while it is answered; few take longer
SMALL = 8192  # characters: a config that has no more is read whatever was spent
FREE = 0.02  # seconds of the reading of a larger one that do not count: only one that is odd or huge takes longer
FEW = 1000  # tasks: a job that has no more is written whatever was spent
_MOST = 10_000  # users that are remembered

_spent: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by user: when, and how much was spent by then
_writing: set[str] = set()  # users of whom a large job is written
_rests: dict[str, float] = {}  # by user: until when their next one waits
_counting = threading.Lock()


@contextmanager
def question(username: str, free: float = 0.0) -> Iterator[None]:
    """The work of one question, of which ``free`` seconds do not count: few take longer. Raises Spent before it begins,
    where nothing is left."""
    held = free or HELD
    with _counting:
        if (over := _now(username)) >= SECONDS:
            wait = ceil((over - SECONDS) / BACK) + 1
            raise TooManyRequests(
                f"You have asked for so much at once that no time is left for this. Try again in {wait} seconds.",
                wait,
            )
        _add(username, held)
    began = time.thread_time()
    try:
        yield
    finally:
        with _counting:
            _add(username, max(0.0, time.thread_time() - began - free) - held)


@contextmanager
def reading(username: str, config: Any) -> Iterator[None]:
    """The reading of a config that is submitted. A small one always may, any other one not while a large job of this
    user is written. Raises Spent."""
    if len(config if isinstance(config, str) else repr(config)) <= SMALL:
        yield
        return
    _require_alone(username)
    with question(username, FREE):
        yield


@contextmanager
def writing(username: str, tasks: int) -> Iterator[None]:
    """The writing of what has so many tasks. Few always may. Of many, no user has two written at once, and the next one
    waits as long as the last one took, HELD seconds at most: others wait for the database meanwhile, and get it in
    between. Not in a transaction. Raises Spent."""
    if tasks <= FEW:
        yield
        return
    with _counting:
        _require_alone(username)
        _writing.add(username)
    try:
        if (rest := _rests.pop(username, 0.0) - time.monotonic()) > 0:
            time.sleep(min(rest, HELD))
        began = time.monotonic()
        with question(username):
            yield
    finally:
        _rests[username] = 2 * time.monotonic() - began
        _writing.discard(username)


def _require_alone(username: str) -> None:
    if username in _writing:
        raise TooManyRequests("Another large job or sweep of yours is being written. Try again in 1 second.", 1)


def forget() -> None:
    _spent.clear()
    _writing.clear()
    _rests.clear()


def _add(username: str, seconds: float) -> None:
    _spent[username] = time.monotonic(), max(0.0, _now(username) + seconds)
    _spent.move_to_end(username)
    while len(_spent) > _MOST:
        _spent.popitem(last=False)


def _now(username: str) -> float:
    """What is spent and has not come back."""
    at, spent = _spent.get(username, (0.0, 0.0))
    return max(0.0, spent - BACK * (time.monotonic() - at))
