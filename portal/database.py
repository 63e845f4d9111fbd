"""DATABASE_URL -> Django's settings for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from portal.core import private

# Each thread of the web process keeps its connection, and each connection fills its cache with what it reads: 2 MB each
# (16 MB each made 383 MB of 155, and were no faster: the system caches the file anyway).
# WAL lets readers go on while one writes; IMMEDIATE takes the write lock at BEGIN, so read-then-write never fails.
_SQLITE = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": (
        "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA cache_size=-2000;PRAGMA temp_store=MEMORY"
    ),
}

# A host that is gone says nothing: without these limits the kernel waits for it for a quarter of an hour, or for two
# hours once it has taken a query. A server that is only slow still answers for its connections.
_POSTGRESQL = {
    "connect_timeout": 10,  # seconds
    "tcp_user_timeout": 20_000,  # milliseconds
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def configure(url: str) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = dict(environ.Env.db_url_config(url))
    except Exception as error:
        raise ImproperlyConfigured("DATABASE_URL is no database address, such as postgres://user@host/name.") from error
    engine = settings.get("ENGINE", "")
    if engine.endswith("sqlite3"):
        settings["OPTIONS"] = dict(_SQLITE)
        path = Path(settings["NAME"])
        path.parent.mkdir(parents=True, exist_ok=True)
        for each in (
            path,
            Path(f"{path}-wal"),
            Path(f"{path}-shm"),
        ):  # the last two follow the first when they are made
            private.file("DATABASE_URL", each)
    elif not engine.endswith("postgresql"):
        raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:// or postgres://.")
    else:
        settings["OPTIONS"] = _POSTGRESQL | settings.get("OPTIONS", {})
    settings["CONN_MAX_AGE"] = None  # threads live long and keep their connection
    settings["CONN_HEALTH_CHECKS"] = True
    return settings
