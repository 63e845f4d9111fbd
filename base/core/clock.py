"""A clock that never steps, for times that are compared within one process.

The machine's own clock is set forward and back, and differs from host to host. It is for rows and for people
(``django.utils.timezone.now``); nothing is decided by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, Self, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound="HasMoment")

_KEPT = 256  # so many times of its own a process knows
_BEGAN = datetime.now(UTC), time.monotonic()


def monotonic_now() -> datetime:
    """Like the time of day; but only its differences within this process mean anything."""
    at, monotonic = _BEGAN
    return at + timedelta(seconds=time.monotonic() - monotonic)


class Remembered(Generic[T]):
    """What ``make`` returned last, in this process; it is made again once it is older than so many seconds."""

    def __init__(self, make: Callable[..., T], seconds: float) -> None:
        self._make, self.seconds = make, seconds
        self._last: tuple[float, T] | None = None

    def __call__(self, *arguments: object) -> T:
        if self._last is None or time.monotonic() - self._last[0] > self.seconds:
            self._last = time.monotonic(), self._make(*arguments)
        return self._last[1]

    def forget(self) -> None:
        self._last = None


def deadline(seconds: float) -> Callable[[], bool]:
    """A function that says whether so much time has passed from now on."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def cpu_deadline(seconds: float, *, step: float) -> Callable[[], bool]:
    """A function that says whether this thread has used so much CPU from now on, or will have after one more step."""
    end = time.thread_time() + seconds - step
    return lambda: time.thread_time() > end


class HasMoment(Protocol):
    def on_clock(self, today: datetime, now: datetime) -> Self:
        """The same by a clock that says ``now`` when this one says ``today``."""


class Learnt(Generic[K, V]):
    """Rows with moments, ``known`` on a clock of one's own. What was learnt once stays, whatever is done to the clock
    of the day."""

    def __init__(self) -> None:
        self._rows: Mapping[K, V] = {}
        self.known: Mapping[K, V] = {}

    def learn(self, rows: Mapping[K, V], time_of_day: datetime, read_at: datetime) -> None:
        before, known = self._rows, self.known
        self.known = {
            key: known[key] if row == before.get(key) else row.on_clock(time_of_day, read_at)
            for key, row in rows.items()
        }
        self._rows = rows


class OwnTimes:
    """The times of day that a process wrote into rows, each with the moment at which it began to, on its own clock."""

    def __init__(self) -> None:
        self._began: dict[datetime, datetime] = {}

    def note(self, time_of_day: datetime, began: datetime) -> None:
        self._began[time_of_day] = began
        if len(self._began) > _KEPT:
            del self._began[next(iter(self._began))]

    def learnt(self, value: datetime, read_at: datetime) -> datetime:
        """When this process learnt of a row's time that it reads now."""
        return self._began.get(value, read_at)

    def since(self, value: datetime, time_of_day: datetime, read_at: datetime) -> datetime:
        """A moment of the past, whoever wrote it."""
        return self._began.get(value) or before(value, time_of_day, read_at)


def before(value: datetime, time_of_day: datetime, read_at: datetime) -> datetime:
    """A moment by the clock of the day; it is not later than now, whatever was done to that clock."""
    return read_at - max(time_of_day - value, timedelta())


def after(until: datetime | None, time_of_day: datetime, read_at: datetime, most: timedelta) -> datetime | None:
    """The end of a pause; it is never longer than ``most``, whatever was done to the clock of the day."""
    return None if until is None else read_at + min(until - time_of_day, most)
