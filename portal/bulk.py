"""Many rows written by one prepared statement each: what a pass of the scheduler needs to write hundreds of them.

Signals are left out; the querysets' own ways take ten times as long (SQLite takes but 999 values in one statement).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model

Row = Sequence[Any]


def insert_rows(rows: Sequence[Model]) -> None:
    """INSERT objects of one model. They do not learn their ids."""
    if not rows:
        return
    model, connection = type(rows[0]), connections[DEFAULT_DB_ALIAS]
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    values = [[field.get_db_prep_save(field.pre_save(row, True), connection) for field in fields] for row in rows]
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        marks = ", ".join(["%s"] * len(fields))
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)  # noqa: S608 - our own names


def update_rows(model: type[Model], change: Sequence[str], where: Sequence[str], rows: Iterable[Row]) -> int:
    """UPDATE with the values of each row, those of the fields to ``change`` before those of ``where``. Returns how many
    rows were changed. ``auto_now`` is left out, as with ``QuerySet.update``."""
    connection = connections[DEFAULT_DB_ALIAS]
    fields = [model._meta.get_field(name) for name in (*change, *where)]
    values = [
        [field.get_db_prep_save(value, connection) for field, value in zip(fields, row, strict=True)]  # type: ignore[union-attr]
        for row in rows
    ]
    if not values:
        return 0
    names = [f"{connection.ops.quote_name(str(field.column))} = %s" for field in fields]  # type: ignore[union-attr]
    sets, conditions = ", ".join(names[: len(change)]), " AND ".join(names[len(change) :])
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {sets} WHERE {conditions}", values)  # noqa: S608 - our own names
        return int(cursor.rowcount)
