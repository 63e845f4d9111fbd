"""Which tables a backup has, their rows as they are at one moment, and how values stand in it: the same whichever
database they come from or go to.

A value is a JSON value: times as ``2026-11-22 10:00:00.123456`` in UTC, flags as true and false, JSON columns as their
text. The tables are those that the database has, by its own list of migrations, not those of this release.

Others go on writing while it is read. Both databases can: a reader of SQLite in WAL mode, and a transaction of
PostgreSQL that is REPEATABLE READ, see what was committed when they began. So nothing is copied first, nobody waits,
and no program of the database is needed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from graphlib import TopologicalSorter
from typing import Any, Literal
from urllib.parse import quote

from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models import Field, ForeignKey, Model

from base.core.bulk import one_row
from portal.backup.encryption import BackupError

# Tables of other apps hold nothing that outlives a restore: sessions, orders, lock-outs.
APPS = ("portal", "clusters", "jobs")
# Sent once or about this moment: one-time tickets, open shells, who lives.
PASSING = {("portal", model) for model in ("ticket", "terminal", "heartbeat", "host", "process")}
Kind = Literal["plain", "time", "flag", "json"]
Migration = tuple[str, str]
Convert = Callable[[Any], Any]
_KINDS: dict[str, Kind] = {"DateTimeField": "time", "BooleanField": "flag", "JSONField": "json"}
_PLAIN = re.compile(
    r"(Big|Small|Positive|PositiveBig|PositiveSmall)?(Auto|Integer)Field|(Char|Text|Float|GenericIPAddress)Field"
)
_AT_ONCE = 500  # rows that are read together
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


@dataclass(frozen=True, slots=True)
class Table:
    """``counter``: the column whose values the database counts up, if there is one."""

    name: str
    columns: list[tuple[str, Kind]]
    counter: str = ""


def applied(loader: MigrationLoader) -> list[Migration]:
    """What was done to this database, of our apps, in order of name."""
    return sorted(key for key in loader.applied_migrations if key[0] in APPS)


def unknown(loader: MigrationLoader, migrations: Collection[Migration]) -> list[str]:
    """Those that only a newer release has."""
    return [f"{app} {name}" for app, name in migrations if (app, name) not in loader.disk_migrations]


def require_known(loader: MigrationLoader, migrations: Collection[Migration], what: str) -> None:
    if newer := ", ".join(unknown(loader, migrations)):
        raise BackupError(
            f"{what} is of a newer release of Longshore: this one does not know {newer}. Use that release."
        )


def loader_for(migrations: Collection[Migration]) -> MigrationLoader:
    """One for an empty database that is to get these. Where all steps that one migration replaces are among them, that
    one is done, which takes a sixth of the time; else the steps are."""
    there = set(migrations)
    replacements = MigrationLoader(None).replacements.values()
    return MigrationLoader(connection, replace_migrations=all(there.issuperset(one.replaces) for one in replacements))


def in_graph(loader: MigrationLoader, migrations: Collection[Migration]) -> list[Migration]:
    """These as the loader does them: steps that it does at once are one."""
    by_step = {step: key for key, one in loader.replacements.items() for step in one.replaces}
    nodes = loader.graph.nodes
    return sorted({key if key in nodes else by_step[key] for key in migrations})


def tables_at(loader: MigrationLoader, migrations: Collection[Migration]) -> list[Table]:
    """Those of our apps once these migrations were done; a table comes after those it points to."""
    models = _models(loader, in_graph(loader, migrations))
    pointed = {model: _pointed(model) & set(models) for model in models}
    return [_table(model) for model in TopologicalSorter(pointed).static_order() if _lasts(model)]


def to_neutral(table: Table) -> Callable[[tuple[Any, ...]], list[Any]]:
    """Makes the values of a row as the database's driver gives them those of a backup."""
    changed = [(at, _OUT[kind]) for at, (_, kind) in enumerate(table.columns) if kind in _OUT]

    def neutral(row: tuple[Any, ...]) -> list[Any]:
        values = list(row)
        for at, convert in changed:
            if values[at] is not None:
                values[at] = convert(values[at])
        return values

    return neutral


def from_neutral(table: Table) -> Callable[[list[Any]], list[Any]]:
    """The other way round, for this database: SQLite takes them as they are."""
    if connection.vendor != "postgresql":
        return lambda row: row
    kinds = [kind for _, kind in table.columns]
    return lambda row: [value if value is None else _taken(kind, value) for kind, value in zip(kinds, row, strict=True)]


def _models(loader: MigrationLoader, migrations: Collection[Migration]) -> list[type[Model]]:
    apps = loader.project_state(list(migrations)).apps
    return [model for model in apps.get_models(include_auto_created=True) if model._meta.app_label in APPS]


def _pointed(model: type[Model]) -> set[Any]:
    return {field.related_model for field in model._meta.concrete_fields if field.is_relation} - {model}


def _lasts(model: type[Model]) -> bool:
    return (model._meta.app_label, str(model._meta.model_name)) not in PASSING


def _table(model: type[Model]) -> Table:
    key = model._meta.pk
    counter = str(key.column) if key.get_internal_type().endswith("AutoField") else ""
    columns = [(str(field.column), kind_of(field)) for field in model._meta.concrete_fields]
    return Table(model._meta.db_table, columns, counter)


def kind_of(field: Field[Any, Any]) -> Kind:
    """BackupError for a type of column that no release had: decide here how its values stand in a backup."""
    target = field.target_field if isinstance(field, ForeignKey) else field
    name = target.get_internal_type()
    if name in _KINDS:
        return _KINDS[name]
    if not _PLAIN.fullmatch(name):
        raise BackupError(f"A backup does not know how to keep {field}, a {name}.")
    return "plain"


def _time(value: datetime | str) -> str:
    """SQLite's driver gives the text that Django wrote, which is the form of a backup."""
    return value if isinstance(value, str) else str(value.astimezone(UTC).replace(tzinfo=None))


_OUT: dict[Kind, Convert] = {"time": _time, "flag": bool}


def _taken(kind: Kind, value: Any) -> Any:
    """PostgreSQL takes no zero character, which SQLite does."""
    if kind == "time":
        return f"{value}+00"
    if kind == "json":
        return _NUL.sub(r"\1\\ufffd", value)
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Moment:
    """``cursor`` gives one to close. ``counted``: the last number that the database gave to a row of a table, even if
    that row is gone."""

    cursor: Callable[[], Any]
    counted: Callable[[Table], int]


@contextmanager
def snapshot() -> Iterator[Moment]:
    """Yield the default database. It stays as it was while this lasts."""
    with _sqlite() if connection.vendor == "sqlite" else _postgresql() as taken:
        yield taken


def rows(open_cursor: Callable[[], Any], table: Table) -> Iterator[list[Any]]:
    """All rows, with the values of a backup."""
    neutral = to_neutral(table)
    columns = ", ".join(f'"{name}"' for name, _ in table.columns)
    with closing(open_cursor()) as cursor:
        cursor.execute(f'SELECT {columns} FROM "{table.name}"')  # noqa: S608 - our own names
        while batch := cursor.fetchmany(_AT_ONCE):
            yield from map(neutral, batch)


@contextmanager
def _sqlite() -> Iterator[Moment]:
    """On a connection of its own: Django's would take the lock of the one writer (base.database). Django's comes
    first, as it turns on the WAL mode where that is not yet on, and readers would be in its way."""
    connection.ensure_connection()
    address = f"file:{quote(str(connection.settings_dict['NAME']))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=20)) as own:
        own.execute("BEGIN")
        own.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from this first look on nothing changes
        yield Moment(own.cursor, partial(_counted_by_sqlite, own))
        own.execute("ROLLBACK")


@contextmanager
def _postgresql() -> Iterator[Moment]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # the file may be slow to take rows
        yield Moment(connection.chunked_cursor, _counted_by_postgresql)


def _counted_by_sqlite(database: sqlite3.Connection, table: Table) -> int:
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [table.name]).fetchone()
    return int(row[0]) if row else 0


def _counted_by_postgresql(table: Table) -> int:
    (sequence,) = one_row("SELECT pg_get_serial_sequence(%s, %s)", f'"{table.name}"', table.counter)
    last, is_called = one_row(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608 - of the database
    return int(last) if is_called else 0
