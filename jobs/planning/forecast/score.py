"""How good were forecasts? What was shown beside what came true. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

AIM, ROUND_AIM = 0.8, 0.05  # the part of all starts that should be between p10 and p90, and how far off it may be


class Shown(NamedTuple):
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


def score(seen: Sequence[Shown]) -> Accuracy:
    if not seen:
        return Accuracy(0)
    early = sum(one.started < one.p10 for one in seen) / len(seen)
    late = sum(one.started > one.p90 for one in seen) / len(seen)
    return Accuracy(
        len(seen),
        1 - early - late,
        early,
        late,
        _median((one.started, one.p50) for one in seen),
        _median((one.started, one.guess) for one in seen),
        _median((one.started, one.by_limit) for one in seen),
        _within_as_played(seen),
    )


def _within_as_played(seen: Iterable[Shown]) -> float | None:
    fates = [one.played[0] <= one.started <= one.played[2] for one in seen if one.played is not None]
    return sum(fates) / len(fates) if fates else None


def _median(pairs: Iterable[tuple[int, int | None]]) -> float | None:
    errors = [abs(started - foreseen) for started, foreseen in pairs if foreseen is not None]
    return median(errors) if errors else None
