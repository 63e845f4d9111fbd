"""A span of time that somebody asks about, and its days. Pure.

A time is written as milliseconds since 1970, as a day (``2026-11-20``), as ISO 8601, or as a span before now (``24h``,
``7d``). A day as the end of a window means the end of that day.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from base.core.errors import BadRequest
from base.core.values import local_time, milliseconds
from base.core.words import whole

_SPAN = re.compile(r"([0-9]{1,5})([mhdw])")
_MINUTES = {"m": 1, "h": 60, "d": 1440, "w": 10080}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LATEST = 253_370_764_800_000  # the year 9999, less two days for the zones


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A span of time from ``begin`` up to ``end``, in milliseconds. What goes on is known up to ``now``."""

    begin: int
    end: int
    now: int
    zone: tzinfo

    @property
    def until(self) -> int:
        """The moment up to which anything can have been used."""
        return max(self.begin, min(self.end, self.now))

    def days(self) -> list[int]:
        """The moments at which a part of the window begins: its begin, and each midnight in its zone. The last one is
        its end."""
        edges, day = [self.begin], local_time(self.begin, self.zone)
        while True:
            day = midnight_after(day)
            if milliseconds(day) >= self.end:
                return [*edges, self.end]
            edges.append(milliseconds(day))

    def offsets(self) -> list[tuple[int, int]]:
        """How far the zone is ahead of UTC: (from when on, milliseconds), for the whole window."""
        edges = self.days()
        offsets = [(self.begin, self._offset(self.begin))]
        for before, after in pairwise(edges):
            if self._offset(after) != offsets[-1][1]:
                minutes = range(before // 60_000, after // 60_000 + 2)
                at_minute = bisect_left(minutes, True, key=lambda each: self._offset(each * 60_000) != offsets[-1][1])
                offsets.append((minutes[at_minute] * 60_000, self._offset(after)))
        return offsets

    def _offset(self, time: int) -> int:
        return (local_time(time, self.zone).utcoffset() or timedelta()) // timedelta(milliseconds=1)


def read_window(begin: str, end: str, now: datetime, *, span: timedelta, longest: timedelta) -> TimeWindow:
    """The window of two texts; without an end it is up to now, without a begin as long as ``span``. Days are those of
    the zone of ``now``. Raises BadRequest with a sentence."""
    zone = now.tzinfo or UTC
    last = _time("to", end, now, is_end=True) if end else milliseconds(now)
    first = _time("from", begin, now) if begin else max(0, last - span // timedelta(milliseconds=1))
    if first >= last:
        raise BadRequest("The range is empty: from must be before to.")
    if last - first > longest // timedelta(milliseconds=1):
        raise BadRequest(f"The range is too long: at most {longest.days:,} days can be asked for at once.")
    return TimeWindow(first, last, milliseconds(now), zone)


def read_since(text: str, now: datetime) -> datetime | None:
    """``24h``, ``7d``, ``30m`` or ``2w`` before now, ``2026-11-20`` or a time in ISO 8601; None for anything else."""
    if match := _SPAN.fullmatch(text.strip()):
        return now.astimezone(UTC) - timedelta(minutes=int(match[1]) * _MINUTES[match[2]])
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def midnight_after(day: datetime) -> datetime:
    following = (day.replace(tzinfo=None) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return following.replace(tzinfo=day.tzinfo)


def _time(name: str, text: str, now: datetime, *, is_end: bool = False) -> int:
    try:
        return _read(text.strip(), now, is_end)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{name} is not a time: give milliseconds since 1970, a day such as 2026-11-20, a time in ISO 8601, "
            "or a span before now such as 24h or 7d."
        ) from None


def _read(text: str, now: datetime, is_end: bool) -> int:
    if match := _SPAN.fullmatch(text):
        time = milliseconds(now - timedelta(minutes=int(match[1]) * _MINUTES[match[2]]))
    elif (number := whole(text, 15)) is not None:
        time = number
    else:
        read = datetime.fromisoformat(text)
        local = read if read.tzinfo else read.replace(tzinfo=now.tzinfo)
        time = milliseconds(midnight_after(local) if is_end and _DAY.fullmatch(text) else local)
    if not 0 <= time <= _LATEST:
        raise ValueError(text)
    return time
