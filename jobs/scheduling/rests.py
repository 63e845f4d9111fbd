"""How long users rest of whom borrowers were evicted, as rows; the rule is that of jobs/planning/queue/scene.py."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from jobs.models import Job, UserRest
from jobs.planning.queue.scene import MOST_EVICTIONS, QUIET, Resting, Rests, rests_after

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
