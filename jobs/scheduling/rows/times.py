"""Moments of rows on the steady clock of this process (jobs/scheduling/load.py says why)."""

from __future__ import annotations

from datetime import datetime, timedelta

_PASSES = 256  # so many passes back it is known when each began


class OwnTimes:
    """The times of day that passes of this process wrote into rows, each with the moment at which its pass began."""

    def __init__(self) -> None:
        self._began: dict[datetime, datetime] = {}

    def note(self, time_of_day: datetime, began: datetime) -> None:
        self._began[time_of_day] = began
        if len(self._began) > _PASSES:
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
