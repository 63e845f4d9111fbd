"""Reads DATABASE_URL into Django's settings.

These few lines replace a library of which this was the only call: it warned about an address that it did not know with
a text that held the password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from base.core import private

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
    # The same on the server's side: a process or a host that stands still in the middle of a transaction keeps its
    # locks, on which all others wait. base/hosts/joining.py refuses to start without the first of them.
    "options": (
        "-c idle_in_transaction_session_timeout=7000 -c tcp_user_timeout=10000"
        " -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
    ),
}


# libpq's own options in the query of the address are texts; these are Django's.
_FLAGS = {"server_side_binding", "pool"}


def configure(url: str) -> dict[str, Any]:
    """Django's settings for the database at ``url``. ImproperlyConfigured when it is no address of a database that
    Longshore can use."""
    try:
        parts = urlsplit(url)
        settings = _READERS[parts.scheme](parts)
    except KeyError:
        raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:// or postgres://.") from None
    except ValueError:  # its words could hold the password
        raise ImproperlyConfigured("DATABASE_URL is no database address, such as postgres://user@host/name.") from None
    settings["CONN_MAX_AGE"] = None  # threads live long and keep their connection
    settings["CONN_HEALTH_CHECKS"] = True
    return settings


def _sqlite(parts: SplitResult) -> dict[str, Any]:
    """``sqlite:////folder/file``, or ``sqlite:///file`` in the working folder."""
    name = unquote(parts.path[1:])
    if parts.netloc or not name:
        raise ValueError
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):  # SQLite makes the last two like the first
        private.file("DATABASE_URL", each)
    return {"ENGINE": "base.sqlite", "NAME": name, "OPTIONS": dict(_SQLITE)}


def _postgresql(parts: SplitResult) -> dict[str, Any]:
    """``postgres://user:password@host:port/name?option=value``; several hosts with commas between them; a host that is
    a folder, for the socket in it, stands before the name: ``postgres://user@/var/run/postgresql/name``."""
    folder, _, name = parts.path[1:].rpartition("/")
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    if not name:
        raise ValueError
    single = "," not in hosts
    options = {key: value in ("true", "True", "1") if key in _FLAGS else value for key, value in parse_qsl(parts.query)}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(name),
        "USER": unquote(user),
        "PASSWORD": unquote(password),
        "HOST": unquote(f"/{folder.lstrip('/')}" if folder else (parts.hostname or "") if single else hosts),
        "PORT": str(parts.port or "") if single else "",
        "OPTIONS": {**_POSTGRESQL, **options},
    }


def pooled(settings: dict[str, Any]) -> dict[str, Any]:
    """The same database by way of a pooler in transaction mode: what belongs to one session does not work there."""
    of_session = _POSTGRESQL["options"]
    own = {key: value for key, value in settings["OPTIONS"].items() if (key, value) != ("options", of_session)}
    return {**settings, "OPTIONS": own, "DISABLE_SERVER_SIDE_CURSORS": True}


_READERS = {"sqlite": _sqlite, **dict.fromkeys(("postgres", "postgresql", "pgsql", "psql"), _postgresql)}
