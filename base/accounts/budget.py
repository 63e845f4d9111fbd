"""How much each user may ask of the portal at once: seconds of CPU for what is asked while they type, as a check, a
sweep or patterns, and for long configs; and rows of the database for jobs that they submit, stop and delete.

Nobody who types reaches it, and small jobs do not count: a script may submit thousands of them. Who has spent it is
told when to come back, and the others are not slowed down. A question counts HELD seconds from its begin on, so that
many at the same moment do not all find something left, and what it took once it is answered. Rows count from the begin
of their writing, and again when their job is stopped or deleted, since the scheduler writes them then. What is larger
than all that may be spent is written too, and the next one waits the longer. Each web process has its own count: of
LONGSHORE_WEB_PROCESSES a user may fill as many cores, not more.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

from base.core.errors import TooManyRequests

SECONDS = 10.0  # of CPU that may be spent at once
BACK = 0.25  # of them come back in each second
HELD = 1.0  # seconds that a question counts while it is answered; few take longer
SMALL = 8192  # characters: a config that has no more is read whatever was spent
FREE = 0.02  # seconds of the reading of a larger one that do not count: only one that is odd or huge takes longer
ROWS = 20_000  # that may be spent at once
ROWS_BACK = 2_000  # of them come back in each second: SQLite writes many times as many, and the others have the rest
FEW = 20  # tasks of each job that do not count: to write them takes no longer than the rest of a job
AT_ONCE = 2_000  # rows that are written for one user at the same moment; more in one piece are written alone
A_ROW = 5e-5  # seconds in which one is written while others write too
_MOST = 10_000  # users that are remembered

_counting = threading.Lock()


@dataclass(slots=True)
class _Spent:
    """What a user has spent and what has not come back at the moment ``at``; and what of theirs is being written, which
    likely takes until ``until``."""

    at: float = 0.0
    seconds: float = 0.0
    rows: float = 0.0
    writing: int = 0
    until: float = 0.0

    def settle(self, now: float) -> None:
        gone, self.at = now - self.at, now
        self.seconds = max(0.0, self.seconds - BACK * gone)
        self.rows = max(0.0, self.rows - ROWS_BACK * gone)

    def require_seconds(self) -> None:
        if self.seconds >= SECONDS:
            wait = ceil((self.seconds - SECONDS) / BACK) + 1
            raise _refused("You have asked for so much at once that no time is left for this.", wait)

    def require_rows(self, rows: int) -> None:
        is_full = self.writing > 0 and self.writing + rows > AT_ONCE
        if is_full or self.rows >= ROWS:
            wait = max((self.rows - ROWS) / ROWS_BACK, self.until - self.at if is_full else 0.0)
            says = "You have submitted, stopped or deleted so many tasks that others have their turn first."
            raise _refused(says, ceil(wait) + 1)


_spent: OrderedDict[str, _Spent] = OrderedDict()  # by user; a user who is made anew goes on with it


@contextmanager
def question(username: str, free: float = 0.0) -> Iterator[None]:
    """The work of one question, of which ``free`` seconds do not count: few take longer. Raises TooManyRequests before
    it begins, where nothing is left."""
    held = free or HELD
    with _counting:
        spent = _of(username)
        spent.require_seconds()
        spent.seconds += held
    began = time.thread_time()
    try:
        yield
    finally:
        took = max(0.0, time.thread_time() - began - free)
        with _counting:
            spent = _of(username)
            spent.seconds = max(0.0, spent.seconds + took - held)


@contextmanager
def reading(username: str, config: Any) -> Iterator[None]:
    """The reading of a config, or of what is made of it. A small one always may. Raises TooManyRequests."""
    if len(config if isinstance(config, str) else repr(config)) <= SMALL:
        yield
        return
    with question(username, FREE):
        yield


@contextmanager
def writing(username: str, tasks: int) -> Iterator[None]:
    """The writing of what has so many tasks. Few always may. Raises TooManyRequests where the user has written too much
    or AT_ONCE rows of theirs are being written, and then it is not begun."""
    if (rows := tasks - FEW) <= 0:
        yield
        return
    with _counting:
        spent = _of(username)
        spent.require_rows(rows)
        spent.rows += rows
        spent.writing += rows
        spent.until = max(spent.until, spent.at) + A_ROW * rows
    try:
        yield
    finally:
        with _counting:
            spent.writing -= rows
            if not spent.writing:
                spent.until = 0.0


def wrote(username: str, *tasks: int) -> None:
    """Count that the tasks of jobs, so many of each, are written by the scheduler since their user has stopped or
    deleted the jobs. That is never refused, as it frees what others wait for: their next job waits for it."""
    if rows := sum(max(0, each - FEW) for each in tasks):
        with _counting:
            _of(username).rows += rows


def forget() -> None:
    _spent.clear()


def _of(username: str) -> _Spent:
    """What the user has spent, as of now. Call it with the lock."""
    spent = _spent.setdefault(username, _Spent())
    _spent.move_to_end(username)
    while len(_spent) > _MOST:
        _spent.popitem(last=False)
    spent.settle(time.monotonic())
    return spent


def _refused(says: str, seconds: int) -> TooManyRequests:
    return TooManyRequests(f"{says} Try again in {seconds} {'second' if seconds == 1 else 'seconds'}.", seconds)
