"""Learns from the attempts that ended how long jobs run. Each process asks the database once a minute at most."""

from __future__ import annotations

import time

from jobs.models import Holding
from jobs.planning.forecast.lengths import Lengths, Like

EVERY = 60.0  # seconds for which what was learnt holds
_LEARNT = 5_000  # attempts
_ENDS = (Holding.Outcome.SUCCEEDED, Holding.Outcome.FAILED, Holding.Outcome.STOPPED)

_last: tuple[float, Lengths] | None = None


def learnt() -> Lengths:
    """As of the last minute."""
    global _last
    if _last is None or time.monotonic() - _last[0] > EVERY:
        _last = time.monotonic(), learn()
    return _last[1]


def learn() -> Lengths:
    """From the newest attempts that ended, now."""
    return Lengths(ended())


def ended(before: int | None = None) -> list[tuple[Like, float]]:
    """The newest attempts that ended, or those that had before this moment (in milliseconds), with their seconds."""
    rows = Holding.objects.filter(waited__isnull=False, outcome__in=_ENDS, ended__isnull=False).order_by("-id")
    if before is not None:
        rows = rows.filter(ended__lt=before)
    found = rows.values_list("username", "job_name", "gpus", "vc", "began", "ended")[:_LEARNT]
    return [
        (Like(user, name, gpus, vc), (last - began) / 1000)
        for user, name, gpus, vc, began, last in found
        if last is not None
    ]


def forget() -> None:
    global _last
    _last = None
