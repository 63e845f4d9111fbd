"""Which jobs may come while others wait? Drawn from those that came lately; the same draw has the same.

What came at the same hours of the days before may come again; where no whole day is known, what came in the last hours.
Each draw takes as many of them as there were, some twice and some not at all, so that draws differ as days do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from random import Random
from typing import Generic

from jobs.planning.queue.scene import LAST, JobT

DAY, LATELY = 86_400.0, 3 * 3600.0  # seconds
DAYS = 7  # that are looked back at most
MOST = 400  # jobs that come in one draw


class Arrivals(Generic[JobT]):
    """``came``: jobs, each with when it came, in seconds of any clock."""

    def __init__(self, came: Iterable[tuple[float, JobT]]) -> None:
        self._came = sorted(came, key=itemgetter(0))
        self._times = [at for at, _ in self._came]

    def coming(self, now: float, draw: int) -> Sequence[tuple[float, JobT]]:
        """The jobs that come in this draw after ``now``, the first one first, and after how many seconds. Their ids are
        below 0, and they are behind all that wait."""
        known = now - self._times[0] if self._came else 0.0
        if known <= 0:
            return ()
        days = min(DAYS, int(known // DAY))
        span = DAY if days else min(LATELY, known)
        begin = now - (1 + draw % days) * DAY if days else now - span
        window = self._came[bisect_right(self._times, begin) : bisect_right(self._times, begin + span)]
        rng, found = Random(draw), list[tuple[float, JobT]]()  # noqa: S311
        for times in range(int(DAY // span) if window else 0):
            again = rng.choices(window, k=len(window))
            found += sorted(((times * span + at - begin, job) for at, job in again), key=itemgetter(0))
            if len(found) >= MOST:
                break
        return [(at, replace(job, id=-id, since=f"{LAST}{at:015.3f}")) for id, (at, job) in enumerate(found[:MOST], 1)]
