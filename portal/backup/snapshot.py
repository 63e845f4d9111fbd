"""Reads a database as it is at one moment while others go on writing, row by row.

Both databases can: a reader of SQLite in WAL mode, and a transaction of PostgreSQL that is REPEATABLE READ, see what
was committed when they began. So nothing is copied first, nobody waits, and no program of the database is needed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol
from urllib.parse import quote

from django.db import connection, transaction

from portal.backup.tables import Table, to_neutral

_AT_ONCE = 500  # rows


class Cursor(Protocol):
    def execute(self, query: str, /) -> Any: ...
    def fetchmany(self, size: int, /) -> list[tuple[Any, ...]]: ...
    def fetchone(self) -> tuple[Any, ...] | None: ...


class Snapshot(Protocol):
    def cursor(self) -> Any:
        """A Cursor to close."""

    def counted(self, table: Table) -> int:
        """The last number that the database gave to a row of the table, even if that row is gone."""


@contextmanager
def snapshot() -> Iterator[Snapshot]:
    """The default database. It stays as it was while this lasts."""
    if connection.vendor == "sqlite":
        with _sqlite() as taken:
            yield taken
    else:
        with _postgresql() as taken:
            yield taken


def rows(taken: Snapshot, table: Table) -> Iterator[list[Any]]:
    """All rows, with the values of a backup (portal.backup.tables)."""
    neutral = to_neutral(table)
    columns = ", ".join(f'"{name}"' for name, _ in table.columns)
    with closing(taken.cursor()) as cursor:
        cursor.execute(f'SELECT {columns} FROM "{table.name}"')  # noqa: S608 - our own names
        while found := cursor.fetchmany(_AT_ONCE):
            yield from map(neutral, found)


class _Sqlite:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def cursor(self) -> sqlite3.Cursor:
        return self._database.cursor()

    def counted(self, table: Table) -> int:
        query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        found = self._database.execute(query, [table.name]).fetchone()
        return int(found[0]) if found else 0


class _Postgresql:
    def cursor(self) -> Any:
        return connection.chunked_cursor()

    def counted(self, table: Table) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [f'"{table.name}"', table.counter])
            cursor.execute(f"SELECT last_value, is_called FROM {cursor.fetchone()[0]}")  # noqa: S608 - of the database
            last, is_called = cursor.fetchone()
            return int(last) if is_called else 0


@contextmanager
def _sqlite() -> Iterator[Snapshot]:
    """On a connection of its own: Django's would take the lock of the one writer (portal.database). Django's comes
    first, as it turns on the WAL mode where that is not yet on, and readers would be in its way."""
    connection.ensure_connection()
    name = connection.settings_dict["NAME"]
    with closing(
        sqlite3.connect(f"file:{quote(str(name))}?mode=ro", uri=True, isolation_level=None, timeout=20)
    ) as own:
        own.execute("BEGIN")
        own.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from this first look on nothing changes
        yield _Sqlite(own)
        own.execute("ROLLBACK")


@contextmanager
def _postgresql() -> Iterator[Snapshot]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # the file may be slow to take rows
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # files are read in between
        yield _Postgresql()
