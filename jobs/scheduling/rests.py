"""How long users rest of whom borrowers were evicted, as rows; the rule is that of jobs/planning/queue/scene.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Generic, TypeVar

from jobs.models import Job, UserRest
from jobs.planning.queue.scene import MOST_EVICTIONS, QUIET, Resting, Rests, rests_after
from jobs.planning.queue.users.used_lately import UsedLately

T = TypeVar("T", Resting, UsedLately)
_KEY, _VALUES = ("username", "vc"), ("evictions", "counted", "last")


def load() -> Rests:
    rows = UserRest.objects.values_list(*_KEY, *_VALUES)
    return {(username, vc): Resting(*values) for username, vc, *values in rows}


def count(jobs: Collection[int], now: datetime) -> None:
    """Note that these borrowers are evicted, in the transaction that ends their attempts."""
    evicted = list(Job.objects.filter(id__in=jobs).values_list(*_KEY, "started_at"))
    before = load()
    after = rests_after(before, evicted, now)
    rows = [
        UserRest(username=username, vc=vc, evictions=rest.evictions, counted=rest.counted, last=rest.last)
        for (username, vc), rest in sorted(after.items())
        if before.get((username, vc)) != rest
    ]
    UserRest.objects.bulk_create(rows, update_conflicts=True, unique_fields=_KEY, update_fields=_VALUES)


def clean_up(now: datetime) -> None:
    """Delete what has no effect any more."""
    UserRest.objects.filter(last__lt=now - MOST_EVICTIONS * QUIET).delete()


class LearntRows(Generic[T]):
    """Rows of users in virtual clusters, with moments on the scheduler's own clock. What was learnt once stays,
    whatever is done to the clock of the day."""

    def __init__(self) -> None:
        self._rows: Mapping[tuple[str, str], T] = {}
        self.known: Mapping[tuple[str, str], T] = {}

    def learn(self, rows: Mapping[tuple[str, str], T], time_of_day: datetime, read_at: datetime) -> None:
        before, known = self._rows, self.known
        self._rows = rows
        self.known = {
            whose: known[whose] if row == before.get(whose) else row.on_clock(time_of_day, read_at)
            for whose, row in rows.items()
        }
