"""What reservations keep idle, as rows; the rule is that of jobs/planning/queue/idling/rule.py."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from datetime import datetime

from base.core import clock
from jobs.models import KeptIdle
from jobs.planning.queue.idling.rule import Idling, Idlings

_VALUES = tuple(each.name for each in fields(Idling))


def load(today: datetime, now: datetime) -> Idlings:
    """The rows, on a clock that says ``now`` when the clock of the day says ``today``."""
    found: dict[str, Idling] = {}
    for vc, *values in KeptIdle.objects.values_list("vc", *_VALUES):
        known = Idling(**dict(zip(_VALUES, values, strict=True)))
        found[vc] = replace(known, nodes=tuple(known.nodes)).on_clock(today, now)
    return found


def write(after: Idlings, now: datetime) -> None:
    """Write those of the steady clock, in the transaction of the pass that found them at ``now``."""
    steady = clock.monotonic_now()
    rows = [KeptIdle(vc=vc, **asdict(one.on_clock(steady, now))) for vc, one in after.items()]
    KeptIdle.objects.exclude(vc__in=after).delete()
    KeptIdle.objects.bulk_create(rows, update_conflicts=True, unique_fields=["vc"], update_fields=_VALUES)
