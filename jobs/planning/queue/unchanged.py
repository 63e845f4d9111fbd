"""Knows when the turns need not be worked out again, because nothing has changed that they go by. Pure.

Most passes come because a container has started or a row has changed that no turn depends on. The same scene gives the
same turns, so where nothing was to be done, nothing is to be done as long as everything is equal, and until the clock
alone changes something.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.planning.queue.scene import Rests, SchedulableJob

# Likely ends are worked out for moments that are so far apart: each second moves them all a little.
INTERVAL = timedelta(seconds=5)
_LONGEST, _COSTS = timedelta(seconds=60), 200
_FIRST = datetime.min


@dataclass(frozen=True, slots=True)
class UnchangedTurns:
    """The turns of a pass in which no job could start. Turns that go by the same ``basis`` are equal before
    ``until``."""

    basis: tuple[object, ...]
    until: datetime

    def holds(self, basis: tuple[object, ...], now: datetime) -> bool:
        """Whether turns that go by ``basis`` now are the same. Values are compared, so what another process wrote
        meanwhile counts; those that are the same objects as before cost nothing."""
        return now < self.until and self.basis == basis


def unchanged_turns(
    basis: tuple[object, ...], pauses: Iterable[datetime], now: datetime, hold: timedelta = INTERVAL
) -> UnchangedTurns:
    """Note that no job could start in these turns; that holds until one of the ``pauses`` of waiting jobs is over, or
    for ``hold``."""
    moments = (moment for moment in pauses if moment > now)
    return UnchangedTurns(basis, min([interval_start(now) + hold, *moments]))


def hold_for(cost: float) -> timedelta:
    """How long turns may hold that took ``cost`` seconds of a core: so long that working them out again takes no more
    than a two-hundredth of one, as what the clock alone lets start can wait for a moment where very many jobs wait."""
    return max(INTERVAL, min(_LONGEST, _COSTS * timedelta(seconds=cost)))


def pauses(waiting: Iterable[SchedulableJob], rests: Rests) -> set[datetime]:
    """The moments from which on the clock alone may let one of these jobs start."""
    moments = {moment for job in waiting for moment in (job.not_before, job.parked_until)}
    if rests:
        moments.update(job.rests_until(rests) for job in waiting)
    return {moment for moment in moments if moment is not None}


def interval_start(now: datetime) -> datetime:
    """The beginning of the interval in which the moment is."""
    return now - (now - _FIRST.replace(tzinfo=now.tzinfo)) % INTERVAL
