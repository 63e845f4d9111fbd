"""Opens sessions of PostgreSQL that belong to one part of a process alone, and the sign of life that such a session is.

LISTEN and advisory locks last as long as their session, so they need one that no pooler shares out:
LONGSHORE_DATABASE_DIRECT names the server itself where DATABASE_URL is a pooler.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.utils import DatabaseErrorWrapper

_HELD = """
    SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid::bigint = %s AND l.objid::bigint = %s
"""


def open_session() -> Any:
    """Return a connection of psycopg in autocommit, beside Django's. Raises DatabaseError."""
    import psycopg  # only where PostgreSQL is in use

    params = _direct() if settings.DIRECT else connection.get_connection_params()
    foreign = {"cursor_factory", "context", "prepare_threshold", "pool", "server_side_binding"}
    own = {key: value for key, value in params.items() if key not in foreign}
    with DatabaseErrorWrapper(connection):
        return psycopg.connect(**own, autocommit=True)


def is_postgresql() -> bool:
    """Whether processes of this portal may be on several hosts."""
    return connection.vendor == "postgresql"


class Sign:
    """Shows everybody that the holder of an epoch of a lease lives: a session that has an advisory lock. It ends with
    its process, at once, also when that is killed. On SQLite there is none, and ``is_missing`` never says so."""

    def __init__(self, name: str) -> None:
        self._key = zlib.crc32(f"longshore lease {name}".encode())
        self._session: Any = None
        self._epoch = 0

    def show(self, epoch: int) -> None:
        """Show that this process holds the epoch, or is about to. Several may: the lock is shared, so one that hangs
        right then is in nobody's way. Raises DatabaseError."""
        if not is_postgresql():
            return
        self.hide()
        self._session = open_session()
        with DatabaseErrorWrapper(connection):
            self._session.execute("SELECT pg_advisory_lock_shared(%s, %s)", self._lock(epoch))
        self._epoch = epoch

    def ensure_running(self) -> None:
        """Show it again if the session was lost. Raises DatabaseError."""
        if self._session is None:
            return
        try:
            with DatabaseErrorWrapper(connection):
                self._session.execute("SELECT 1")
        except DatabaseError:
            self.show(self._epoch)

    def hide(self) -> None:
        if self._session is not None:
            with suppress(Exception):
                self._session.close()
            self._session = None

    def is_missing(self, epoch: int) -> bool:
        """Whether no process shows that it holds the epoch. Raises DatabaseError."""
        if not is_postgresql():
            return False
        key, number = (value % 2**32 for value in self._lock(epoch))
        with connection.cursor() as cursor:
            cursor.execute(_HELD, [key, number])
            return not cursor.fetchone()[0]

    def _lock(self, epoch: int) -> tuple[int, int]:
        """Two numbers of 32 bits with a sign, as advisory locks have them."""
        return self._key - 2**31, epoch % 2**31


def _direct() -> dict[str, Any]:
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    params = {key: settings.DIRECT[name] for key, name in names.items() if settings.DIRECT[name]}
    return {**params, **settings.DIRECT["OPTIONS"]}
