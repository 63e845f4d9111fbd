"""What querysets cannot do: write many rows with little work, read one row by SQL that is ready, and let writers of a
table take turns.

A pass of the scheduler writes hundreds of rows. ``bulk_create`` takes twice as long for a thousand events as
``insert_values``, and ``bulk_update`` forty times as long as ``update_rows``. Django's signals are not sent. Reading
one row by an index takes a database less time than a queryset needs to put its SQL together (0.25 ms of CPU, 0.1 by
Django's ``raw``, 0.04 by ``first_row``), so the few reads that nearly every request makes have theirs written out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, JSONField, Model, QuerySet
from django.db.models.expressions import Col
from django.utils import timezone

Row = Sequence[Any]
M = TypeVar("M", bound=Model)
R = TypeVar("R")
V = TypeVar("V")
_AS_IT_IS = frozenset((str, int, bool, NoneType))  # values that every database takes so, but for a JSONField


def first_where(model: type[M], condition: str, *values: int | str | datetime) -> M | None:
    """The first row that meets an SQL condition, which has a ``%s`` for each value."""
    table = connections[DEFAULT_DB_ALIAS].ops.quote_name(model._meta.db_table)
    return first_row(model, f"SELECT * FROM {table} WHERE {condition} LIMIT 1", *values)  # noqa: S608 - our own names


class RawRows(NamedTuple):
    """Rows as the database returned them. Equal ones say the same."""

    names: tuple[str, ...]  # of the columns
    rows: list[tuple[Any, ...]]

    def part(self, start: int, end: int | None = None) -> RawRows:
        """Some of the columns."""
        return RawRows(self.names[start:end], [row[start:end] for row in self.rows])


def first_row(model: type[M], query: str, *values: int | str | datetime) -> M | None:
    """The first row of an SQL query that gives all columns of the model. Other columns it gives are attributes of the
    instance, with the values that the database returned."""
    return next(iter(all_rows(model, query, *values)), None)


def all_rows(model: type[M], query: str, *values: int | str | datetime) -> list[M]:
    """All rows of such a query."""
    return made_of(model, found(query, *values))


def made_of(model: type[M], found: RawRows) -> list[M]:
    """The instances that are in these rows."""
    names, rows = found
    attributes, places, others = _order(model, names)
    made, connection = [], connections[DEFAULT_DB_ALIAS]
    converters = _converters(model, names, connection.vendor)
    for row in map(list, rows):
        for at, column, convert in converters:
            if row[at] is not None:
                row[at] = convert(row[at], column, connection)
        instance = model.from_db(DEFAULT_DB_ALIAS, attributes, [row[at] for at in places])
        for at, name in others:
            setattr(instance, name, row[at])
        made.append(instance)
    return made


def all_values(model: type[Model], line: Callable[..., V], query: str, *values: int | str | datetime) -> list[V]:
    """All rows of an SQL query that gives some columns of the model, each as what ``line`` makes of its values. Equal
    values of JSON are the same object, which nobody may change: of many rows most are equal. ``values_list`` takes
    three times as long for a thousand tasks, and ten times for one."""
    names, rows = found(query, *values)
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    connection = connections[DEFAULT_DB_ALIAS]
    if columns:
        for at, column, convert in _converters(model, names, connection.vendor):
            made = {value: None if value is None else convert(value, column, connection) for value in set(columns[at])}
            columns[at] = [made[value] for value in columns[at]]
    return list(map(line, *columns)) if columns else []


def values_of(rows: QuerySet[Any, R]) -> list[R]:
    """The rows of a ``values_list``. Each column is converted at once and a value that is there often only once: for
    hundreds of rows a third of the work. So equal values are the same object, which nobody may change."""
    return _values(_compiled(rows))


def values_again(make: Callable[[], QuerySet[Any, R]]) -> list[R]:
    """``values_of(make())`` for what is asked again and again, by a function that always makes the same: its SQL is put
    together once in a process, which for a few rows is nearly all of the work."""
    return _values(_known(make))


def values_with_ids(make: Callable[[], QuerySet[Any, R]], ids: Iterable[int], column: str = "id") -> list[R]:
    """The same of those ``with_ids``."""
    numbers = ",".join([f"{id:d}" for id in ids])
    if not numbers:
        return []
    known = _known_with_ids(make, column)
    return _values(known._replace(query=known.query.replace(_NO_ID, f"({numbers})")))


def found(query: str, *values: int | str | datetime) -> RawRows:
    """All rows of an SQL query."""
    connection = connections[DEFAULT_DB_ALIAS]
    with connection.cursor() as cursor:
        cursor.execute(query, _adapted(values))
        return RawRows(tuple([column[0] for column in cursor.description]), cursor.fetchall())


def one_row(query: str, *values: int | str | datetime) -> tuple[Any, ...]:
    """The one row of an SQL query, with the values that the database returned; an empty tuple where it has none."""
    connection = connections[DEFAULT_DB_ALIAS]
    with connection.cursor() as cursor:
        cursor.execute(query, _adapted(values))
        return tuple(cursor.fetchone() or ())


def columns_of(model: type[Model], alias: str) -> str:
    """SQL of all columns of a model, whose table has this alias: an older release knows fewer than the table has."""
    quote = connections[DEFAULT_DB_ALIAS].ops.quote_name
    return ", ".join(f"{alias}.{quote(str(field.column))}" for field in model._meta.concrete_fields)


def as_text(columns: str) -> str:
    """SQL that says the values of these columns of a row as one text, a list of JSON."""
    if connections[DEFAULT_DB_ALIAS].vendor == "sqlite":
        return f"json_array({columns})"
    return f"CAST(json_build_array({columns}) AS text)"


def text_of(columns: str, rows: str) -> str:
    """The values of these columns of all rows, which an SQL query says from its FROM on, as lists of JSON with commas
    between them; empty without rows. It takes a third of the time of as many rows, and one that equals another says
    that nothing has changed."""
    join = "group_concat({}, ',')" if connections[DEFAULT_DB_ALIAS].vendor == "sqlite" else "string_agg({}, ',')"
    return one_row(f"SELECT {join.format(as_text(columns))} {rows}")[0] or ""


def chunks(values: Sequence[V], size: int = 500) -> Iterator[Sequence[V]]:
    """The values, so many at once: databases limit the length of a statement, and of its lists."""
    return (values[start : start + size] for start in range(0, len(values), size))


def with_ids(rows: QuerySet[M, R], ids: Iterable[int], column: str = "id") -> QuerySet[M, R]:
    """Those of the rows that have one of these numbers in a column of their own table. ``__in`` looks at each number
    several times, which takes longer than the database does."""
    numbers = ",".join([f"{id:d}" for id in ids])
    return _with(rows, f"({numbers})", column) if numbers else rows.none()


def _with(rows: QuerySet[M, R], numbers: str, column: str) -> QuerySet[M, R]:
    quote = connections[DEFAULT_DB_ALIAS].ops.quote_name
    return rows.extra(where=[f"{quote(rows.model._meta.db_table)}.{quote(column)} IN {numbers}"])  # noqa: S610


def insert(model: type[Model], **values: Any) -> int:
    """INSERT one row with these values of columns and the defaults of all others, and return the id that the database
    gives it. ``create`` takes four times as long."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(f"{_insertion(model).statement} RETURNING id", _new_row(model, values))
        return int(cursor.fetchone()[0])


def insert_all(model: type[Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """The same with several rows, whose ids are not learnt."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.executemany(_insertion(model).statement, [_new_row(model, values) for values in rows])


def insert_row(row: Model) -> None:
    """INSERT what an instance has, as ``save(force_insert=True)`` does at twice the cost."""
    row.pk = insert(type(row), **{name: getattr(row, name) for name in _insertion(type(row)).places})
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def insert_values(model: type[Model], names: Sequence[str], rows: Iterable[Row], *, unless_there: bool = False) -> None:
    """INSERT rows that have the values of the fields ``names``. No default is added. ``unless_there``: but those that
    the table has already, by its unique columns."""
    connection = connections[DEFAULT_DB_ALIAS]
    fields = [model._meta.get_field(name) for name in names]
    values = _prepared(fields, rows, connection)
    if not values:
        return
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)  # type: ignore[union-attr]
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        marks = ", ".join(["%s"] * len(fields))
        there = " ON CONFLICT DO NOTHING" if unless_there else ""
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks}){there}", values)  # noqa: S608 - our names


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


def update_where(model: type[Model], changes: Mapping[str, Any], condition: str, *values: int | str | datetime) -> int:
    """UPDATE the rows that meet an SQL condition, which has a ``%s`` for each value, to these values of fields. Returns
    how many there were. Putting a queryset's SQL together takes six times as long as all of this."""
    connection = connections[DEFAULT_DB_ALIAS]
    fields = [model._meta.get_field(name) for name in changes]
    (new,) = _prepared(fields, [[*changes.values()]], connection)
    quote = connection.ops.quote_name
    sets = ", ".join(f"{quote(str(field.column))} = %s" for field in fields)  # type: ignore[union-attr]
    with connection.cursor() as cursor:
        query = f"UPDATE {quote(model._meta.db_table)} SET {sets} WHERE {condition}"  # noqa: S608 - our own names
        cursor.execute(query, [*new, *_adapted(values)])
        return int(cursor.rowcount)


def lock_table(model: type[Model]) -> None:
    """Inside a transaction: until it ends nobody else writes to the table of ``model``, and another one that calls this
    waits here. For rules over all rows, such as a sum, which no constraint can state. SQLite has one
    writer at a time anyway."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            table = connection.ops.quote_name(model._meta.db_table)
            cursor.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")


def _adapted(values: Iterable[int | str | datetime]) -> list[Any]:
    adapt = connections[DEFAULT_DB_ALIAS].ops.adapt_datetimefield_value
    return [adapt(value) if isinstance(value, datetime) else value for value in values]


def _is_clock(field: Any) -> bool:
    return getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)


class _Insertion(NamedTuple):
    statement: str
    defaults: list[Any]
    # By the name of a column where it is, its field, and whether values of ``_AS_IT_IS`` are taken so; but for the id
    # and for those that tell when the row was written, whose places are the ``clocks``.
    places: dict[str, tuple[int, Any, bool]]
    clocks: list[int]


@cache
def _insertion(model: type[Model]) -> _Insertion:
    connection = connections[DEFAULT_DB_ALIAS]
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    quote = connection.ops.quote_name
    columns, marks = ", ".join(quote(str(field.column)) for field in fields), ", ".join(["%s"] * len(fields))
    clocks = [at for at, field in enumerate(fields) if _is_clock(field)]
    return _Insertion(
        f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES ({marks})",  # noqa: S608 - our own names
        [field.get_db_prep_save(field.get_default(), connection) for field in fields],
        {f.attname: (at, f, not isinstance(f, JSONField)) for at, f in enumerate(fields) if at not in clocks},
        clocks,
    )


def _new_row(model: type[Model], values: Mapping[str, Any]) -> list[Any]:
    connection, (_, defaults, places, clocks) = connections[DEFAULT_DB_ALIAS], _insertion(model)
    row = defaults.copy()
    for at in clocks:
        row[at] = connection.ops.adapt_datetimefield_value(timezone.now())
    for name, value in values.items():
        at, field, as_it_is = places[name]
        row[at] = value if as_it_is and type(value) in _AS_IT_IS else field.get_db_prep_save(value, connection)
    return row


class _Compiled(NamedTuple):
    """The SQL of a ``values_list``, and by column how its values are converted."""

    query: str
    values: tuple[Any, ...]
    converters: dict[int, tuple[list[Callable[..., Any]], Any]]


_NO_ID = "(-1)"


def _compiled(rows: QuerySet[Any, Any]) -> _Compiled:
    compiler = rows.query.get_compiler(rows.db)
    try:
        query, values = compiler.as_sql()
    except EmptyResultSet:
        return _Compiled("", (), {})
    converters = compiler.get_converters([column for column, *_ in compiler.select])
    if compiler.connection.vendor == "sqlite":  # sqlite3 makes a moment of each value, a converter of each that differs
        head, rest = query.split(" FROM ", 1)
        for at, (column, (sql, _), _) in enumerate(compiler.select):
            if isinstance(column, Col) and isinstance(column.target, DateTimeField):
                head = head.replace(sql, f"CAST({sql} AS text)")
                converters[at] = [_moment], column
        if rows.ordered:  # Django names a column by its place, which is no column of an index any more
            rest, _, order = rest.rpartition(" ORDER BY ")
            names = [sql for _, (sql, _), _ in compiler.select]
            by = re.sub(r"\b(\d+)(?= (?:ASC|DESC))", lambda place: names[int(place[1]) - 1], order)
            rest = f"{rest} ORDER BY {by}"
        query = f"{head} FROM {rest}"
    return _Compiled(query, values, converters)


def _moment(text: str | None, *_: object) -> datetime | None:
    """What Django makes of a moment in SQLite, in a fifth of the time."""
    return None if text is None else datetime.fromisoformat(f"{text}+00:00")


@cache
def _known(make: Callable[[], QuerySet[Any, Any]]) -> _Compiled:
    return _compiled(make())


@cache
def _known_with_ids(make: Callable[[], QuerySet[Any, Any]], column: str) -> _Compiled:
    return _compiled(_with(make(), _NO_ID, column))


def _values(compiled: _Compiled) -> list[Any]:
    if not compiled.query:
        return []
    connection = connections[DEFAULT_DB_ALIAS]
    with connection.cursor() as cursor:
        cursor.execute(compiled.query, compiled.values)
        columns: list[Sequence[Any]] = list(zip(*cursor.fetchall(), strict=True))
    for at, (convert_all, column) in compiled.converters.items() if columns else ():
        made = {value: value for value in set(columns[at])}
        for convert in convert_all:
            made = {value: convert(known, column, connection) for value, known in made.items()}
        columns[at] = [made[value] for value in columns[at]]
    return list(zip(*columns, strict=True))


# Django's own reading finds these two out anew for each query.
@cache
def _order(model: type[Model], names: tuple[str, ...]) -> tuple[list[str], list[int], list[tuple[int, str]]]:
    """The attributes that these columns are, where each of them is, and the columns that are none."""
    fields = [field for field in model._meta.concrete_fields if field.column in names]
    places = [names.index(str(field.column)) for field in fields]
    others = [(at, name) for at, name in enumerate(names) if at not in places]
    return [field.attname for field in fields], places, others


@cache
def _converters(model: type[Model], names: tuple[str, ...], vendor: str) -> list[tuple[int, Any, Callable[..., Any]]]:
    """Of those columns whose values are not taken as the database returns them."""
    connection, converters = connections[DEFAULT_DB_ALIAS], []
    for field in model._meta.concrete_fields:
        if field.column in names:
            column: Any = field.get_col(model._meta.db_table)
            of_field = connection.ops.get_db_converters(column) + column.get_db_converters(connection)
            converters += [(names.index(field.column), column, convert) for convert in of_field]
    return converters


_to_json = json.JSONEncoder().encode


def _json_text(value: Any, _: object) -> str:
    return _to_json(value)


def _prepared(fields: Sequence[Any], rows: Iterable[Row], connection: BaseDatabaseWrapper) -> list[Row]:
    """The rows as the database takes them, column by column: most values are taken as they are."""
    prepared: list[Row] = []
    values: Row
    for field, values in zip(fields, zip(*rows, strict=True), strict=False):  # without rows there are no columns
        if isinstance(field, JSONField):
            adapt, encoder = connection.ops.adapt_json_value, field.encoder
            if connection.vendor == "sqlite" and encoder is None:
                adapt = _json_text  # type: ignore[assignment]  # the same with less work
            texts = list(map(repr, values))  # most of them are empty, or like many others
            alike = dict(zip(texts, values, strict=True))
            made = {text: None if value is None else adapt(value, encoder) for text, value in alike.items()}
            values = [made[text] for text in texts]
        elif not _AS_IT_IS.issuperset(map(type, values)):  # moments and states, mostly the same one
            made = {value: field.get_db_prep_save(value, connection) for value in set(values)}
            values = [made[value] for value in values]
        prepared.append(values)
    return list(zip(*prepared, strict=True))
