"""Fills a new database with the rows of a backup, as the release that made it had them, and brings it up to this one.

All of it happens beside the database that is there: on SQLite in a new file that takes its place at the end, on
PostgreSQL in one transaction. Whatever goes wrong, the old one is as it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from base.core.bulk import one_row
from portal.backup.encryption import DISORDER, BackupError
from portal.backup.tables import APPS, Migration, Table, from_neutral, in_graph, loader_for, require_known, tables_at

Convert = Callable[[list[Any]], list[Any]]
_LOCKED = "15s"  # for which another session may use a table that is replaced
# Safe, as nobody reads the file before it is whole.
_FAST = ("journal_mode=MEMORY", "synchronous=OFF", "cache_size=-64000")


class Loading:
    """A database without tables that gets those of the backup. ``finish`` when all rows have come."""

    def __init__(self, migrations: Collection[Migration]) -> None:
        executor = MigrationExecutor(connection)
        require_known(executor.loader, migrations, "The backup")
        executor.loader = loader_for(migrations)
        # What libraries have comes first: each of their steps takes longer the more models of ours there are already.
        theirs = [key for key in executor.loader.graph.leaf_nodes() if key[0] not in APPS]
        executor.migrate(theirs + _last(executor.loader, in_graph(executor.loader, migrations)))
        connection.disable_constraint_checking()  # of SQLite: ``finish`` checks them all at once
        self._tables = {table.name: table for table in tables_at(executor.loader, migrations)}
        _empty(reversed(self._tables.values()))
        self._into: Table | None = None
        self._convert: Convert = lambda row: row

    def table(self, says: Mapping[str, Any]) -> None:
        """The rows that follow are of this table."""
        here = self._tables.get(says["name"])
        if here is None or {name for name, _ in here.columns} != {name for name, _ in says["columns"]}:
            raise BackupError(f"The backup has other columns of {says['name']} than its own release had.")
        self._into = Table(here.name, [(name, kind) for name, kind in says["columns"]], here.counter)
        self._convert = from_neutral(self._into)

    def rows(self, rows: list[list[Any]]) -> None:
        if self._into is None:
            raise BackupError(DISORDER)
        _insert(self._into, map(self._convert, rows))

    def require_complete(self, counted: Mapping[str, int]) -> None:
        """BackupError unless each table has as many rows as were written."""
        for table in self._tables.values():
            (found,) = one_row(f'SELECT count(*) FROM "{table.name}"')  # noqa: S608 - our own names
            if found != counted.get(table.name, 0):
                raise BackupError(
                    f"The backup has {found} rows of {table.name}, and says {counted.get(table.name, 0)}."
                )

    def finish(self, last: Mapping[str, int]) -> None:
        """Bring the database up to this release. ``last``: the last number that each table has given."""
        self._count_on(last)
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # now they are checked, and tables can be altered
        else:
            connection.check_constraints()
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
        self._count_on(last)  # a table that a migration made anew has begun to count anew

    def _count_on(self, last: Mapping[str, int]) -> None:
        for table in self._tables.values():
            if table.counter and (number := last.get(table.name, 0)):
                _count_from(table, number)


def _last(loader: MigrationLoader, migrations: Collection[Migration]) -> list[Migration]:
    """Those after which no other of their app comes. Naming one that another app has already brought along with its
    followers would take these back."""
    followed = {parent for key in migrations for parent in loader.graph.node_map[key].parents if parent[0] == key[0]}
    return [key for key in migrations if key not in followed]


@contextmanager
def new_database() -> Iterator[None]:
    """Inside, the default database has no tables. It takes the old one's place at the end; after an exception
    everything is as it was."""
    with _new_sqlite() if connection.vendor == "sqlite" else _new_postgresql():
        yield


@contextmanager
def _new_sqlite() -> Iterator[None]:
    here = Path(connection.settings_dict["NAME"])
    part = here.with_name(f"{here.name}.restoring")
    connection.close()
    _remove(part)
    connection.settings_dict["NAME"] = str(part)
    try:
        with connection.cursor() as cursor:
            for pragma in _FAST:
                cursor.execute(f"PRAGMA {pragma}")
        yield
        connection.close()
        to_disk(part)
        _retire(here)
        part.replace(here)
        to_disk(here.parent)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = str(here)
        _remove(part)


@contextmanager
def _new_postgresql() -> Iterator[None]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # files of users come in between
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCKED}'")
            for name in ours():
                cursor.execute(f'DROP TABLE IF EXISTS "{name}" CASCADE')
            cursor.execute("SET LOCAL lock_timeout = 0")
        yield


def ours() -> list[str]:
    """The tables of this installation in the database, those of a newer release too."""
    known = set(connection.introspection.django_table_names(only_existing=True)) | {"django_migrations"}
    there = set(connection.introspection.table_names())
    return sorted(name for name in there if name in known or name.partition("_")[0] in APPS)


def _empty(tables: Iterator[Table]) -> None:
    """Delete the rows that migrations have made: the backup has its own."""
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f'DELETE FROM "{table.name}"')  # noqa: S608 - our own names


def _insert(table: Table, rows: Iterator[list[Any]]) -> None:
    columns = ", ".join(f'"{name}"' for name, _ in table.columns)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({columns}) FROM STDIN') as copy:
            for row in rows:
                copy.write_row(row)
        return
    marks = ", ".join(["%s"] * len(table.columns))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(f'INSERT INTO "{table.name}" ({columns}) VALUES ({marks})', list(rows))  # noqa: S608


def _count_from(table: Table, number: int) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence(%s, %s), %s)", [f'"{table.name}"', table.counter, number]
            )
            return
        cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table.name])
        cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table.name, number])


def _retire(database: Path) -> None:
    """Take from the file that is replaced what SQLite keeps beside it: it would be taken for the new one's."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as old:
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that it is whole, should the machine stop right now
    _remove(Path(f"{database}-wal"), Path(f"{database}-shm"))


def _remove(*paths: Path) -> None:
    for path in paths:
        for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}-journal")):
            with suppress(FileNotFoundError):
                each.unlink()


def to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
