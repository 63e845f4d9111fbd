"""Which of the portal's processes are alive: each writes a row every few seconds. And whether the file store answers,
which is asked by a thread, so that nobody waits for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from django.db import DatabaseError
from django.utils import timezone

from portal.core.errors import LongshoreError
from portal.files.store import open_store, try_write
from portal.files.store.watch import Watch
from portal.models import Heartbeat

Name = Literal["scheduler", "workers"]
NAMES: tuple[Name, ...] = ("scheduler", "workers")
EVERY = 5.0  # seconds between two beats
LATE = 20.0  # seconds without a beat after which a process counts as down
_MOST_NAMED = 20  # nodes or threads in one answer
_FIRST_LOOK = 0.5  # seconds that /healthz waits for the store, once in a process's life
_WRITE_EVERY = 60.0  # seconds
_wrote_at = -_WRITE_EVERY
_last: dict[str, float] = {}
_seen: tuple[float, dict[str, float | None]] = (0.0, {})


@dataclass(frozen=True, slots=True)
class Report:
    """How the parts of a process are: its threads, how old what it knows of the nodes is (seconds), and what its
    checker of invariants (jobs/scheduling/invariants.py) put right or could not."""

    threads: int = 0
    late_threads: Sequence[str] = ()  # neither working nor made anew yet, or failing again and again
    oldest_look: float | None = None
    old_looks: Mapping[str, float] = field(default_factory=dict)  # node -> age, of those too old to act on
    healed: int = 0  # since the process began
    broken: int = 0  # now


def is_due(name: Name) -> bool:
    return time.monotonic() - _last.get(name, -EVERY) >= EVERY


def beat(name: Name, report: Report | None = None) -> None:
    """Call as often as you like: it writes at most once every EVERY seconds."""
    if is_due(name):
        row = Heartbeat(name=name, at=timezone.now(), report=asdict(report) if report else {})
        told = ["at", "report"]
        Heartbeat.objects.bulk_create([row], update_conflicts=True, unique_fields=["name"], update_fields=told)
        _last[name] = time.monotonic()


def ages() -> dict[str, float | None]:
    """Seconds since each process was last seen, None when never."""
    return _ages(_rows())


def up() -> dict[str, bool]:
    """For pages: at most one query every two seconds; a database that is away makes nothing worse."""
    global _seen
    taken, values = _seen
    if not values or time.monotonic() - taken > 2:
        try:
            _seen = (time.monotonic(), ages())
        except DatabaseError:
            return dict.fromkeys(NAMES, False)
    return {name: age is not None and age < LATE for name, age in _seen[1].items()}


def is_store_up(wait: float = 0.0) -> bool | None:
    """As of the last seconds; None when this process does not know yet."""
    fault = _store.told(wait)
    return None if fault is None else not fault


def forget() -> None:
    """For tests: as in a process that has just started."""
    global _seen, _store, _wrote_at
    _wrote_at = -_WRITE_EVERY
    _last.clear()
    _seen = (0.0, {})
    _store = Watch(_ask_store)


def report() -> tuple[bool, dict[str, Any]]:
    """For /healthz: whether the database and the file store answer, and the ages in seconds."""
    store = is_store_up(_FIRST_LOOK)
    try:
        rows = _rows()
    except DatabaseError:
        return False, {"status": "down", "database": False, "store": store}
    seconds = _ages(rows)
    scheduler, troubled = _of_scheduler(rows.get("scheduler"), seconds["scheduler"] or 0.0)
    seen = all(age is not None and age < LATE for age in seconds.values())
    status = "ok" if store is not False and seen and not troubled else "degraded"
    rounded = {name: None if age is None else round(age, 1) for name, age in seconds.items()}
    told = {"storeReason": _store.told()} if store is False else {}
    return True, {"status": status, "database": True, "store": store, **told, "secondsSinceSeen": rounded, **scheduler}


def _rows() -> dict[str, Heartbeat]:
    return {row.name: row for row in Heartbeat.objects.all()}


def _ages(rows: Mapping[str, Heartbeat]) -> dict[str, float | None]:
    now = timezone.now()
    return {name: max(0.0, (now - rows[name].at).total_seconds()) if name in rows else None for name in NAMES}


def _of_scheduler(row: Heartbeat | None, age: float) -> tuple[dict[str, Any], bool]:
    """What the scheduler said of its parts, and whether something is wrong there. ``age``: since it said so."""
    if row is None or not row.report:
        return {}, False
    said = Report(**row.report)
    oldest = None if said.oldest_look is None else round(said.oldest_look + age, 1)
    old = {node: round(seconds + age, 1) for node, seconds in sorted(said.old_looks.items())[:_MOST_NAMED]}
    report = {
        "threads": {"number": said.threads, "late": list(said.late_threads)[:_MOST_NAMED]},
        "looks": {"oldestSeconds": oldest, "tooOld": old},
        "invariants": {"healed": said.healed, "broken": said.broken},
    }
    return report, bool(said.late_threads or said.old_looks or said.broken)


def _ask_store() -> str:
    """Whether it answers, and now and then whether it takes a file."""
    global _wrote_at
    try:
        store = open_store()
        store.stat("/")
        if time.monotonic() - _wrote_at > _WRITE_EVERY:
            try_write(store)
            _wrote_at = time.monotonic()
    except LongshoreError as error:
        return error.message
    return ""


_store = Watch(_ask_store)
