"""Which tables a backup has, and how their values stand in it: the same whichever database they come from or go to.

A value is a JSON value: times as ``2026-11-22 10:00:00.123456`` in UTC, flags as true and false, JSON columns as their
text. The tables are those that the database has, by its own list of migrations, not those of this release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from typing import Any, Literal

from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.models import Field, ForeignKey, Model

from portal.backup.box import BackupError

APPS = (
    "portal",
    "clusters",
    "jobs",
)  # tables of others hold nothing that outlives a restore: sessions, orders, lock-outs
# Sent once or about this moment: one-time tickets, open shells, who lives.
PASSING = {
    ("portal", "ticket"),
    ("portal", "terminal"),
    ("portal", "heartbeat"),
    ("portal", "host"),
    ("portal", "process"),
}
Kind = Literal["plain", "time", "flag", "json"]
Migration = tuple[str, str]
Convert = Callable[[Any], Any]
_KINDS: dict[str, Kind] = {"DateTimeField": "time", "BooleanField": "flag", "JSONField": "json"}
_PLAIN = re.compile(
    r"(Big|Small|Positive|PositiveBig|PositiveSmall)?(Auto|Integer)Field|(Char|Text|Float|GenericIPAddress)Field"
)
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


@dataclass(frozen=True, slots=True)
class Table:
    """``counter``: the column whose values the database counts up, if there is one."""

    name: str
    columns: list[tuple[str, Kind]]
    counter: str = ""

    @property
    def says(self) -> dict[str, Any]:
        return asdict(self)


def applied(loader: MigrationLoader) -> list[Migration]:
    """What was done to this database, of our apps, in order of name. BackupError when a newer release did it."""
    done = sorted(key for key in loader.applied_migrations if key[0] in APPS)
    require_known(loader, done, "The database")
    return done


def require_known(loader: MigrationLoader, migrations: Collection[Migration], what: str) -> None:
    unknown = [f"{app} {name}" for app, name in migrations if (app, name) not in loader.disk_migrations]
    if unknown:
        raise BackupError(
            f"{what} is of a newer release of Longshore: this one does not know {', '.join(unknown)}. Use that release."
        )


def tables_at(loader: MigrationLoader, migrations: Collection[Migration]) -> list[Table]:
    """Those of our apps once these migrations were done; a table comes after those it points to."""
    models = _models(loader, migrations)
    pointed = {model: _pointed(model) & set(models) for model in models}
    return [_table(model) for model in TopologicalSorter(pointed).static_order() if _lasts(model)]


def to_neutral(table: Table) -> Callable[[tuple[Any, ...]], list[Any]]:
    """Makes the values of a row as the database's driver gives them those of a backup."""
    converts = [_out(kind) for _, kind in table.columns]
    changed = [(at, convert) for at, convert in enumerate(converts) if convert is not None]

    def neutral(row: tuple[Any, ...]) -> list[Any]:
        values = list(row)
        for at, convert in changed:
            if values[at] is not None:
                values[at] = convert(values[at])
        return values

    return neutral


def from_neutral(table: Table) -> Callable[[list[Any]], list[Any]]:
    """The other way round, for this database."""
    convert = _for_postgresql if connection.vendor == "postgresql" else _for_sqlite
    kinds = [kind for _, kind in table.columns]
    return lambda row: [
        value if value is None else convert(kind, value) for kind, value in zip(kinds, row, strict=True)
    ]


def counters(tables: Collection[Table]) -> Iterator[Table]:
    yield from (table for table in tables if table.counter)


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


def _out(kind: Kind) -> Convert | None:
    return _OUT.get(kind)


def _time(value: datetime | str) -> str:
    """SQLite's driver gives the text that Django wrote, which is the form of a backup."""
    return value if isinstance(value, str) else str(value.astimezone(UTC).replace(tzinfo=None))


_OUT: dict[Kind, Convert] = {"time": _time, "flag": bool}


def _for_sqlite(kind: Kind, value: Any) -> Any:
    return value


def _for_postgresql(kind: Kind, value: Any) -> Any:
    """PostgreSQL takes no zero character, which SQLite does."""
    if kind == "time":
        return f"{value}+00"
    if kind == "json":
        return _NUL.sub(r"\1\\ufffd", value)
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
