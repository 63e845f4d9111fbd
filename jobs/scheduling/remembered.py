"""What the queue remembers from pass to pass, as rows: what reservations keep idle, by the rule of
jobs/planning/queue/idling/rule.py, and how long users rest of whom borrowers were evicted, by that of
jobs/planning/queue/scene.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from base.core import clock
from base.core.bulk import values_again
from jobs.models import Job, KeptIdle, UserRest
from jobs.planning.queue.idling.rule import Idling, Idlings
from jobs.planning.queue.scene import MOST_EVICTIONS, QUIET, Displaced, Resting, Rests, displaced_by, rests_after

_IDLE = tuple(each.name for each in fields(Idling))
_REST = tuple(each.name for each in fields(Resting))


def idlings(today: datetime, now: datetime) -> Idlings:
    """What is kept idle, on a clock that says ``now`` when the clock of the day says ``today``."""
    found: dict[str, Idling] = {}
    for vc, *values in KeptIdle.objects.values_list("vc", *_IDLE):
        known = Idling(**dict(zip(_IDLE, values, strict=True)))
        found[vc] = replace(known, nodes=tuple(known.nodes)).on_clock(today, now)
    return found


def write_idlings(after: Idlings, now: datetime) -> None:
    """Write those of the steady clock, in the transaction of the pass that found them at ``now``."""
    steady = clock.monotonic_now()
    rows = [KeptIdle(vc=vc, **asdict(one.on_clock(steady, now))) for vc, one in after.items()]
    KeptIdle.objects.exclude(vc__in=after).delete()
    KeptIdle.objects.bulk_create(rows, update_conflicts=True, unique_fields=["vc"], update_fields=_IDLE)


def rests() -> Rests:
    """Who rests, by the clock of the day."""
    return {username: Resting(*values) for username, *values in values_again(_rows)}


def _rows() -> QuerySet[Any, Any]:
    return UserRest.objects.values_list("username", *_REST)


def note_displaced(owner: int, borrowers: Collection[int], now: datetime) -> None:
    """Note with a job whom it displaces, in the transaction that ends the attempts of these jobs. It goes with the job:
    if that never starts, they were evicted, and nobody rests."""
    evicted = Job.objects.filter(id__in=borrowers).values_list("username", "started_at")
    jobs = Job.objects.filter(id=owner)
    for displaced in jobs.values_list("displaced", flat=True):
        jobs.update(displaced=displaced_by(displaced, evicted), changed_at=now)


def rest_those_of(owners: Iterable[tuple[str, Displaced]], now: datetime) -> None:
    """Let those rest whom these jobs, user/name each, displaced, in the transaction that places them."""
    before = after = rests()
    for title, displaced in owners:
        after = rests_after(after, displaced, title, now)
    rows = [
        UserRest(username=username, **asdict(rest))
        for username, rest in sorted(after.items())
        if before.get(username) != rest
    ]
    UserRest.objects.bulk_create(rows, update_conflicts=True, unique_fields=["username"], update_fields=_REST)


def forget_rests(now: datetime) -> None:
    """Delete those that have no effect any more."""
    UserRest.objects.filter(last__lt=now - MOST_EVICTIONS * QUIET).delete()
