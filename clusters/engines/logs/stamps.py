"""Reads and writes the time stamps that engines put before the lines of a log. Pure.

Stamps are RFC 3339 in UTC with nanoseconds, such as 2026-11-20T10:00:00.500000000Z. As a number a stamp is the
nanoseconds since 1970, which a signed number of 64 bits holds until the year 2262.
"""

from __future__ import annotations

import calendar
from datetime import UTC, datetime

SECOND = 10**9
_MOST_KNOWN = 100_000


class Seconds(dict[bytes, int]):
    """Nanoseconds of each full second, by its text ``2026-11-20T10:00:00``. Lines share their seconds, so most of them
    are looked up. Raises ValueError for what is no time."""

    def __missing__(self, text: bytes) -> int:
        if len(self) >= _MOST_KNOWN:
            self.clear()
        value = calendar.timegm(datetime.fromisoformat(text.decode("ascii", "replace")).timetuple()) * SECOND
        self[text] = value
        return value


_SECONDS = Seconds()


def moment(text: object) -> datetime | None:
    """Reads 2026-11-20T10:00:00.123456789Z, as exactly as a datetime is. None for what is no time, and for the year 1,
    which an engine writes for "never"."""
    try:
        at = datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if at.year > 1 else None


def nanoseconds(at: str | bytes) -> int:
    """The stamp as a number. Raises ValueError."""
    text = at if isinstance(at, bytes) else at.encode("ascii", "replace")
    whole, _, fraction = text.removesuffix(b"Z").partition(b".")
    return _SECONDS[whole] + int(fraction[:9].ljust(9, b"0"))


def stamp(value: int) -> str:
    """The number as a stamp."""
    whole, fraction = divmod(value, SECOND)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
