"""Which of the portal's processes are alive: each writes a row every few seconds. And whether the file store answers,
which is asked by a thread, so that nobody waits for it."""

from __future__ import annotations

import time
from typing import Any, Literal

from django.db import DatabaseError
from django.utils import timezone

from portal.errors import LongshoreError
from portal.models import Heartbeat
from portal.store import open_store
from portal.store.watch import Watch

Name = Literal["scheduler", "workers"]
NAMES: tuple[Name, ...] = ("scheduler", "workers")
EVERY = 5.0  # seconds between two beats
LATE = 20.0  # seconds without a beat after which a process counts as down
_FIRST_LOOK = 0.5  # seconds that /healthz waits for the store, once in a process's life
_last: dict[str, float] = {}
_seen: tuple[float, dict[str, float | None]] = (0.0, {})


def beat(name: Name) -> None:
    """Call as often as you like: it writes at most once every EVERY seconds."""
    if time.monotonic() - _last.get(name, -EVERY) >= EVERY:
        row = Heartbeat(name=name, at=timezone.now())
        Heartbeat.objects.bulk_create([row], update_conflicts=True, unique_fields=["name"], update_fields=["at"])
        _last[name] = time.monotonic()


def ages() -> dict[str, float | None]:
    """Seconds since each process was last seen, None when never."""
    now = timezone.now()
    seen = {row.name: max(0.0, (now - row.at).total_seconds()) for row in Heartbeat.objects.all()}
    return {name: seen.get(name) for name in NAMES}


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
    global _seen, _store
    _last.clear()
    _seen = (0.0, {})
    _store = Watch(_ask_store)


def report() -> tuple[bool, dict[str, Any]]:
    """For /healthz: whether the database and the file store answer, and the ages in seconds."""
    store = is_store_up(_FIRST_LOOK)
    try:
        seconds = ages()
    except DatabaseError:
        return False, {"status": "down", "database": False, "store": store}
    fine = store is not False and all(age is not None and age < LATE for age in seconds.values())
    rounded = {name: None if age is None else round(age, 1) for name, age in seconds.items()}
    status = "ok" if fine else "degraded"
    return True, {"status": status, "database": True, "store": store, "secondsSinceSeen": rounded}


def _ask_store() -> str:
    try:
        open_store().stat("/")
    except LongshoreError as error:
        return error.message
    return ""


_store = Watch(_ask_store)
