"""Says when a job will start, never as one bare time: always with its spread. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from base.core import words
from base.core.values import local_time


def current(forecast: Mapping[str, int] | None, now: datetime) -> Mapping[str, int] | None:
    """A forecast ({"p10", "p50", "p90"} in milliseconds) that has not been overtaken; else None."""
    return forecast if forecast and "p90" in forecast and local_time(forecast["p90"], now.tzinfo) >= now else None


def not_before(forecast: Mapping[str, int] | None, now: datetime) -> int | None:
    """The moment before which it hardly starts, in milliseconds, of a job of which nobody can tell more ({"after"});
    None where there is no such moment, or it has passed."""
    after = (forecast or {}).get("after")
    return after if after is not None and local_time(after, now.tzinfo) > now else None


def moment(time: int, now: datetime) -> str:
    """ "15:40", of milliseconds, as ``words.clock`` writes it."""
    return words.clock(local_time(time, now.tzinfo), now)


def likely(forecast: Mapping[str, int], now: datetime) -> tuple[str, str]:
    """("about 15:40", "8 of 10 such starts are between 15:05 and 16:30"), in the zone of ``now``."""
    p10, p50, p90 = clocks(forecast, now)
    spread = f"between {p10} and {p90}" if p10 != p90 else "within that minute"
    return f"about {p50}", f"8 of 10 such starts are {spread}"


def briefly(forecast: Mapping[str, int], now: datetime) -> str:
    """ "Starts at about 15:40 (15:05 to 16:30)."."""
    p10, p50, p90 = clocks(forecast, now)
    return f"Starts at about {p50} ({f'{p10} to {p90}' if p10 != p90 else 'within that minute'})."


def clocks(forecast: Mapping[str, int], now: datetime) -> list[str]:
    """Return ["15:05", "15:40", "16:30"]: with hardly any doubt not before, most likely, hardly later."""
    return [words.clock(max(now, local_time(forecast[name], now.tzinfo)), now) for name in ("p10", "p50", "p90")]
