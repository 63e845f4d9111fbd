"""What a user used of a virtual cluster lately: an average in which each moment counts half as much as the one a
half-life later. Pure.

It is one value and the moment at which it was told, however many jobs there were; it becomes less by being read later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from clusters.placement.shares import Amount

WHAT = ("cpu", "memory", "gpu")


class UsedLately(NamedTuple):
    """What a user used of a virtual cluster on the average, as it was to be told at a moment."""

    cpu: float
    memory: float
    gpu: float
    at: datetime

    def on_clock(self, today: datetime, now: datetime) -> UsedLately:
        """The same by a clock that says ``now`` when this one says ``today``; it is not of a later moment."""
        return self._replace(at=now + min(self.at - today, timedelta(0)))


UsesLately = Mapping[tuple[str, str], UsedLately]  # by user and virtual cluster


def counts(seconds: float, hours: float) -> float:
    """How much of what was used so long ago still counts, where the half-life has so many hours."""
    return 2.0 ** (-max(0.0, seconds) / (3600 * hours)) if hours else 0.0


def grows(seconds: float, hours: float) -> float:
    """How much of the average is what was held for so long until now."""
    return 1.0 - counts(seconds, hours) if hours else 0.0


def after_use(
    before: UsedLately | None, uses: Iterable[tuple[Amount, float]], now: datetime, hours: float
) -> UsedLately:
    """What a user used lately once they have given back, ``now``, each amount that they held for so many seconds."""
    old = counts((now - before.at).total_seconds(), hours) if before else 0.0
    used = [value * old for value in before[:3]] if before else [0.0, 0.0, 0.0]
    for amount, seconds in uses:
        part = grows(seconds, hours)
        used = [value + part * amount.get(what, 0) for what, value in zip(WHAT, used, strict=True)]
    return UsedLately(used[0], used[1], used[2], now)
