"""One process at a time: a file lock on one host (SQLite), an advisory lock in PostgreSQL; both end with it."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator

from django.conf import settings
from django.db import connection

_KEYS = {"scheduler": 5_071_001}


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Wait until this process is the only one of that name, then hold it."""
    if connection.vendor == "postgresql":
        with _advisory(_KEYS[name]):
            yield
        return
    folder = settings.HOME / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / f"{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _advisory(key: int) -> Iterator[None]:
    """On a connection of its own: Django may close and reopen its own, and the lock would go with it."""
    import psycopg

    from portal.wake import postgres_params

    with psycopg.connect(**postgres_params(), autocommit=True) as own:
        while not own.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone()[0]:  # type: ignore[index]
            time.sleep(0.5)
        yield
