"""How far off were forecasts? The correction of those to come by what recent errors have shown, and the score of those
that were shown. Pure.

A play of the queue knows the lengths of few jobs well, and which jobs come meanwhile by chance alone. How much all of
that moves starts is learnt from the forecasts of the last time, as they were before they were corrected: of a start
that nine of ten were to come before, nine of ten shall come before it. A forecast that has not come true yet counts for
as long as its job has waited, or those that come true soon would be all that is known. Where more or fewer of the last
came true before a moment that was shown than should have, such moments are moved further.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, log
from statistics import median
from typing import NamedTuple

WINDOW = 10_000  # forecasts, the newest, that are read
MOST = 300  # of a class that count
ENOUGH = 10  # forecasts from which on anything is corrected
_ALIKE = 20  # with so many forecasts a class counts as much as all wider ones together
_NEWEST, _FEW = 60, 10  # shown forecasts that move a moment so; with so few it is moved half as far
PARTS = (0.1, 0.5, 0.9)
# How much of it counts that waits became longer than foreseen: a queue is not always as full as it was, so the range
# begins near to what was played and ends near to what the last errors say.
_LATER = (0.4, 0.6, 0.8)
_MINUTE = 60_000.0  # milliseconds: so much is added to all waits, since seconds of a short one mean nothing
_EDGES = (10 * _MINUTE, 60 * _MINUTE, 360 * _MINUTE)  # of the waits foreseen: how far off they are differs

Moments = tuple[int, int, int]  # p10, p50 and p90 in milliseconds
_Classes = tuple[tuple[object, ...], ...]


class PastForecast(NamedTuple):
    """A forecast as it was before its correction, in milliseconds since 1970; ``started`` is None while it is open.
    ``shown`` are the moments after it."""

    vc: str
    made: int
    moments: Moments
    started: int | None
    shown: Sequence[int] = ()


class _Error(NamedTuple):
    """The logarithm of how many times longer than foreseen the wait was, or is so far, and how much it counts."""

    size: float
    is_open: bool
    weight: float = 1.0


class Corrections:
    """``seen`` are the forecasts of the last time, the newest first, as they are known at ``now``."""

    def __init__(self, seen: Iterable[PastForecast], now: int) -> None:
        self._now = now
        self._of: dict[tuple[object, ...], list[PastForecast]] = {}
        newest = list(seen)
        for forecast in newest:
            for key in _classes(forecast.vc, forecast.made, forecast.moments):
                alike = self._of.setdefault(key, [])
                if len(alike) < MOST:
                    alike.append(forecast)
        self._parts = [part - _too_many(newest, now, at) for at, part in enumerate(PARTS)]
        self._factors: dict[_Classes, tuple[float, ...]] = {}

    def corrected(self, vc: str, made: int, moments: Moments) -> Moments:
        """The three moments as they should be shown: in their order, and none before ``made``. They stay as they are
        while too little is known."""
        if len(self._of.get((), ())) < ENOUGH:
            return moments
        factors = self._factors_of(_classes(vc, made, moments))
        waits = [_known(moment - made) * factor for moment, factor in zip(moments, factors, strict=True)]
        p10, p50, p90 = (made + max(0, round(wait - _MINUTE)) for wait in waits)
        return min(p10, p50), p50, max(p50, p90)

    def _factors_of(self, classes: _Classes) -> tuple[float, ...]:
        """Return by how much each of the waits is multiplied."""
        if classes not in self._factors:
            errors = [self._quantile(classes, at) for at in range(len(PARTS))]
            self._factors[classes] = tuple(
                exp(error * (later if error > 0 else 1)) for error, later in zip(errors, _LATER, strict=True)
            )
        return self._factors[classes]

    def _quantile(self, classes: _Classes, at: int) -> float:
        errors, left = list[_Error](), 1.0
        for key in classes:
            alike = self._of.get(key, ())
            weight = left * len(alike) / (len(alike) + (_ALIKE if key else 0))
            errors += [self._error(forecast, at, weight / len(alike)) for forecast in alike]
            left -= weight
        few = 1 / len(self._of[()])  # of so few errors the next one is more often beyond the outer ones
        return _quantile(errors, self._parts[at] + few * (self._parts[at] - (1, 0.5, 0)[at]))

    def _error(self, forecast: PastForecast, at: int, weight: float) -> _Error:
        until = self._now if forecast.started is None else forecast.started
        times = _known(until - forecast.made) / _known(forecast.moments[at] - forecast.made)
        return _Error(log(times), forecast.started is None, weight)


def _too_many(seen: Sequence[PastForecast], now: int, at: int) -> float:
    """How many more of the newest forecasts than should have come true before this moment that was shown, as a part of
    all. One that is open has not, once the moment is over."""
    known = (one for one in seen if one.shown and (one.started is not None or now > one.shown[at]))
    newest = [one.started is not None and one.started < one.shown[at] for one in islice(known, _NEWEST)]
    return sum(newest) / (len(newest) + _FEW) - PARTS[at] * len(newest) / (len(newest) + _FEW)


def _quantile(errors: Iterable[_Error], part: float) -> float:
    """The size below which this part of the errors is (Kaplan and Meier's estimate: one that is open is at least as
    large as it is so far); the largest known where too many are open."""
    ordered = sorted(errors)
    left, above = sum(error.weight for error in ordered), 1.0
    for size, is_open, weight in ordered:
        if not is_open:
            above *= max(0.0, 1 - weight / left) if left > 0 else 0.0
            if above <= 1 - part + 1e-9:
                return size
        left -= weight
    return ordered[-1].size


def _known(wait: float) -> float:
    return max(0.0, wait) + _MINUTE


def _classes(vc: str, made: int, moments: Moments) -> _Classes:
    """Return the classes of such a forecast, the narrowest first."""
    length = bisect_right(_EDGES, moments[1] - made)
    return (vc, length), (length,), ()


AIM, ROUND_AIM = 0.8, 0.05  # the part of all starts that should be between p10 and p90, and how far off it may be


class ShownForecast(NamedTuple):
    """A forecast that came true at ``started``, with the guesses of others; all moments in milliseconds."""

    made: int
    p10: int
    p50: int
    p90: int
    guess: int | None
    by_limit: int | None
    started: int
    played: Sequence[int] | None = None  # p10, p50 and p90 before their correction


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good forecasts were: how many starts were seen, the part of them between p10 and p90, before and after; and
    the median error, in milliseconds, of p50, of the guess that a job waits as long as the last one did, and of the
    guess that all jobs run for as long as they may. ``within_as_played`` is the part that would have been between p10
    and p90 without any correction, of the forecasts of which that is known."""

    scored: int
    within: float | None = None
    early: float | None = None
    late: float | None = None
    median_error: float | None = None
    median_error_of_guess: float | None = None
    median_error_by_limit: float | None = None
    within_as_played: float | None = None

    @property
    def meets_aim(self) -> bool:
        return self.within is not None and abs(self.within - AIM) <= ROUND_AIM


def score(seen: Sequence[ShownForecast]) -> Accuracy:
    if not seen:
        return Accuracy(0)
    early = sum(forecast.started < forecast.p10 for forecast in seen) / len(seen)
    late = sum(forecast.started > forecast.p90 for forecast in seen) / len(seen)
    return Accuracy(
        len(seen),
        1 - early - late,
        early,
        late,
        _median((forecast.started, forecast.p50) for forecast in seen),
        _median((forecast.started, forecast.guess) for forecast in seen),
        _median((forecast.started, forecast.by_limit) for forecast in seen),
        _within_as_played(seen),
    )


def _within_as_played(seen: Iterable[ShownForecast]) -> float | None:
    fates = [
        forecast.played[0] <= forecast.started <= forecast.played[2] for forecast in seen if forecast.played is not None
    ]
    return sum(fates) / len(fates) if fates else None


def _median(pairs: Iterable[tuple[int, int | None]]) -> float | None:
    errors = [abs(started - foreseen) for started, foreseen in pairs if foreseen is not None]
    return median(errors) if errors else None
