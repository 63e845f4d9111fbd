"""How long users rest of whom borrowers were evicted, as rows; the rule is that of jobs/planning/queue/scene.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from base.core.bulk import values_again
from jobs.models import Job, UserRest
from jobs.planning.queue.scene import MOST_EVICTIONS, QUIET, Displaced, Resting, Rests, displaced_by, rests_after

_COLUMNS = tuple(each.name for each in fields(Resting))


def load() -> Rests:
    """Who rests, by the clock of the day."""
    return {username: Resting(*values) for username, *values in values_again(_rows)}


def _rows() -> QuerySet[Any, Any]:
    return UserRest.objects.values_list("username", *_COLUMNS)


def note(owner: int, borrowers: Collection[int], now: datetime) -> None:
    """Note with a job whom it displaces, in the transaction that ends the attempts of these jobs. It goes with the job:
    if that never starts, they were evicted, and nobody rests."""
    evicted = Job.objects.filter(id__in=borrowers).values_list("username", "started_at")
    jobs = Job.objects.filter(id=owner)
    for displaced in jobs.values_list("displaced", flat=True):
        jobs.update(displaced=displaced_by(displaced, evicted), changed_at=now)


def count(owners: Iterable[tuple[str, Displaced]], now: datetime) -> None:
    """Let those rest whom these jobs, user/name each, displaced, in the transaction that places them."""
    before = after = load()
    for title, displaced in owners:
        after = rests_after(after, displaced, title, now)
    rows = [
        UserRest(username=username, **asdict(rest))
        for username, rest in sorted(after.items())
        if before.get(username) != rest
    ]
    UserRest.objects.bulk_create(rows, update_conflicts=True, unique_fields=["username"], update_fields=_COLUMNS)


def clean_up(now: datetime) -> None:
    """Delete what has no effect any more."""
    UserRest.objects.filter(last__lt=now - MOST_EVICTIONS * QUIET).delete()
