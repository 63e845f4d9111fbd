"""What querysets cannot do: read and write many rows with little work, read one row by SQL that is ready, and let
writers of a table take turns.

A pass of the scheduler reads and writes hundreds of rows, for which querysets take several times as long (SQLite takes
no more than 999 values in one statement). Django's signals are not sent. Reading one row by an index takes a database
less time than a queryset needs to put its SQL together, so the few reads that nearly every request makes have theirs
written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from types import NoneType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, CharField, IntegerField, JSONField, Model, QuerySet, TextField
from django.db.models.sql import Query

Row = Sequence[Any]
_PLAIN = (CharField, TextField, IntegerField, BooleanField)  # whose values every database takes as they are
M = TypeVar("M", bound=Model)
R = TypeVar("R")
_AS_IT_IS = frozenset((str, int, bool, NoneType))  # but for a JSONField
_readers: WeakKeyDictionary[Any, dict[Any, Callable[[Row], Any]]] = WeakKeyDictionary()  # of each connection


def first_where(model: type[M], condition: str, *values: int | str) -> M | None:
    """The first row that meets an SQL condition, which has a ``%s`` for each value."""
    table = connections[DEFAULT_DB_ALIAS].ops.quote_name(model._meta.db_table)
    return first_row(model, f"SELECT * FROM {table} WHERE {condition} LIMIT 1", *values)  # noqa: S608 - our own names


def first_row(model: type[M], query: str, *values: int | str | datetime) -> M | None:
    """The first row of an SQL query that gives all columns of the model. Other columns it gives are attributes of the
    instance, with the values that the database returned."""
    connection = connections[DEFAULT_DB_ALIAS]
    adapt = connection.ops.adapt_datetimefield_value
    with connection.cursor() as cursor:
        cursor.execute(query, [adapt(value) if isinstance(value, datetime) else value for value in values])
        row = cursor.fetchone()
        columns = tuple(column[0] for column in cursor.description)
    if row is None:
        return None
    readers = _readers.setdefault(connection, {})
    if (model, columns) not in readers:
        readers[model, columns] = _reader(connection, model, columns)
    instance: M = readers[model, columns](row)
    return instance


def one_row(query: str, *values: int | str) -> tuple[Any, ...]:
    """The one row of an SQL query, with the values that the database returned."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(query, values)
        return tuple(cursor.fetchone())


def read_values(query: QuerySet[Any, Any]) -> list[tuple[Any, ...]]:
    """The rows of a ``values_list``. A value that many rows have in a column, a moment for example, is made of what the
    database returned once, and they share it: nobody may change it."""
    compiler = query.query.get_compiler(query.db)
    columns: list[Any] = list(zip(*chain.from_iterable(compiler.execute_sql()), strict=True))
    if not columns:
        return []
    for at, (convert_each, expression) in compiler.get_converters([each[0] for each in compiler.select]).items():
        made = {}
        for value in set(columns[at]):
            made[value] = value
            for convert in convert_each:
                made[value] = convert(made[value], expression, compiler.connection)
        columns[at] = [made[value] for value in columns[at]]
    return list(zip(*columns, strict=True))


def among(rows: QuerySet[M, R], ids: Iterable[int], column: str = "id") -> QuerySet[M, R]:
    """Those of the rows that have one of these numbers in a column of their own table. ``__in`` looks at each number
    several times, which takes longer than the database does."""
    numbers = ",".join([f"{id:d}" for id in ids])
    if not numbers:
        return rows.none()
    quote = connections[DEFAULT_DB_ALIAS].ops.quote_name
    return rows.extra(where=[f"{quote(rows.model._meta.db_table)}.{quote(column)} IN ({numbers})"])  # noqa: S610


def insert_rows(rows: Sequence[Model]) -> None:
    """INSERT objects of one model. The objects do not get their ids."""
    if not rows:
        return
    model = type(rows[0])
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    insert_values(
        model, [field.name for field in fields], ([field.pre_save(row, True) for field in fields] for row in rows)
    )


def insert_values(model: type[Model], names: Sequence[str], rows: Iterable[Row]) -> None:
    """INSERT rows that have the values of the fields ``names``. No default is added. Where all of them are texts,
    numbers or flags, the values must be just that (an Enum is not)."""
    connection = connections[DEFAULT_DB_ALIAS]
    fields = [model._meta.get_field(name) for name in names]
    if all(isinstance(field, _PLAIN) for field in fields):
        values = list(rows)
    else:
        values = _prepared(fields, rows, connection)
    if not values:
        return
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)  # type: ignore[union-attr]
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        marks = ", ".join(["%s"] * len(fields))
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)  # noqa: S608 - our own names


def update_rows(model: type[Model], change: Sequence[str], where: Sequence[str], rows: Iterable[Row]) -> int:
    """UPDATE with the values of each row, those of the fields to ``change`` before those of ``where``. Returns how many
    rows were changed. ``auto_now`` is left out, as with ``QuerySet.update``."""
    connection = connections[DEFAULT_DB_ALIAS]
    fields = [model._meta.get_field(name) for name in (*change, *where)]
    values = _prepared(fields, rows, connection)
    if not values:
        return 0
    names = [f"{connection.ops.quote_name(str(field.column))} = %s" for field in fields]  # type: ignore[union-attr]
    sets, conditions = ", ".join(names[: len(change)]), " AND ".join(names[len(change) :])
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {sets} WHERE {conditions}", values)  # noqa: S608 - our own names
        return int(cursor.rowcount)


def take_turns(model: type[Model]) -> None:
    """Inside a transaction: until it ends nobody else writes to the table of ``model``, and another one that calls this
    waits here. For rules over all rows, such as a sum, which no constraint can state. SQLite has one
    writer at a time anyway."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            table = connection.ops.quote_name(model._meta.db_table)
            cursor.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")


def _reader(connection: BaseDatabaseWrapper, model: type[M], columns: Sequence[str]) -> Callable[[Row], M]:
    """Makes an instance of a row with these columns. What a raw query of Django finds out for each row is found out
    here once for each connection."""
    fields = [field for field in model._meta.concrete_fields if field.column in columns]
    places = [columns.index(field.column) for field in fields]
    names = [field.attname for field in fields]
    others = [(at, name) for at, name in enumerate(columns) if at not in places]
    compiler = connection.ops.compiler("SQLCompiler")(Query(model), connection, DEFAULT_DB_ALIAS)
    converters = compiler.get_converters([field.get_col(model._meta.db_table) for field in fields])

    def read(row: Row) -> M:
        values = [row[place] for place in places]
        for at, (convert_each, expression) in converters.items():
            for convert in convert_each:
                values[at] = convert(values[at], expression, connection)
        instance = model.from_db(DEFAULT_DB_ALIAS, names, values)
        for at, name in others:
            setattr(instance, name, row[at])
        return instance

    return read


def _prepared(fields: Sequence[Any], rows: Iterable[Row], connection: BaseDatabaseWrapper) -> list[Row]:
    """The rows as the database takes them, column by column: most values are taken as they are."""
    columns = list(zip(*rows, strict=True))
    if not columns:
        return []
    prepared = [_prepare(field, values, connection) for field, values in zip(fields, columns, strict=True)]
    return list(zip(*prepared, strict=True))


def _prepare(field: Any, values: Sequence[Any], connection: BaseDatabaseWrapper) -> Sequence[Any]:
    if isinstance(field, JSONField):
        encode = connection.ops.adapt_json_value
        return [None if value is None else encode(value, field.encoder) for value in values]
    if _AS_IT_IS.issuperset(map(type, values)):
        return values
    known: dict[Any, Any] = {}
    for value in values:  # moments and states, mostly the same one
        if value not in known:
            known[value] = field.get_db_prep_save(value, connection)
    return [known[value] for value in values]
