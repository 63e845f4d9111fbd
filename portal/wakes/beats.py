"""Knows which of the portal's processes are alive: each writes a row every few seconds, with a report about its
parts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from django.db import DatabaseError

from portal.hosts import here
from portal.models import Heartbeat

Name = Literal["scheduler", "workers", "sampler"]
NAMES: tuple[Name, ...] = ("scheduler", "workers", "sampler")
EVERY = 5.0  # seconds between two beats
LATE = 20.0  # seconds without a beat after which a process counts as down
FRESH = 2.0  # seconds for which pages show an answer again
_last: dict[str, float] = {}
_seen: tuple[float, dict[str, float | None]] = (0.0, {})


@dataclass(frozen=True, slots=True)
class Report:
    """A process about its parts: its threads, how old its picture of each node is (seconds), and what its checker of
    invariants (jobs/scheduling/invariants.py) repaired or could not."""

    threads: int = 0
    late_threads: Sequence[str] = ()  # that neither work nor have been replaced, or that fail again and again
    oldest_look: float | None = None
    old_looks: Mapping[str, float] = field(default_factory=dict)  # node -> age of a picture too old to act on
    healed: int = 0  # since the process began
    broken: int = 0  # now


def is_due(name: Name) -> bool:
    return time.monotonic() - _last.get(name, -EVERY) >= EVERY


def beat(name: Name, report: Report | None = None) -> None:
    """May be called often: it writes at most once every EVERY seconds."""
    if is_due(name):
        row = Heartbeat(name=name, at=here.now(), report=asdict(report) if report else {})
        told = ["at", "report"]
        Heartbeat.objects.bulk_create([row], update_conflicts=True, unique_fields=["name"], update_fields=told)
        _last[name] = time.monotonic()


def ages() -> dict[str, float | None]:
    """Seconds since each process was last seen, None when never."""
    return ages_of(rows())


def up() -> dict[str, bool]:
    """Which processes are up, for pages. At most one query every FRESH seconds; while the database is away the last
    answer holds."""
    global _seen
    taken, values = _seen
    if not values or time.monotonic() - taken > FRESH:
        try:
            _seen = (time.monotonic(), ages())
        except DatabaseError:
            return dict.fromkeys(NAMES, False)
    return {name: age is not None and age < LATE for name, age in _seen[1].items()}


def rows() -> dict[str, Heartbeat]:
    return {row.name: row for row in Heartbeat.objects.all()}


def ages_of(rows: Mapping[str, Heartbeat]) -> dict[str, float | None]:
    now = here.now()
    return {name: max(0.0, (now - rows[name].at).total_seconds()) if name in rows else None for name in NAMES}


def forget() -> None:
    """For tests: as in a process that has just started."""
    global _seen
    _last.clear()
    _seen = (0.0, {})
