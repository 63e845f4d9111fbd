"""Lets tests that make new databases again and again migrate the first one alone: the next ones get what came of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from portal.backup import tables

_migrate: Callable[..., Any] = MigrationExecutor.migrate
_models = tables._models
_files: dict[object, sqlite3.Connection] = {}  # what SQLite had then
_statements: dict[object, list[tuple[Any, ...]]] = {}  # what PostgreSQL was told
_released: dict[object, Any] = {}  # models, by the migrations


def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty database that is to get migrations which another one in this process has got is filled from that one,
    and the models of a release are made once."""

    def models(loader: MigrationLoader, done: Collection[tables.Migration]) -> Any:
        if (key := tuple(done)) not in _released:
            _released[key] = _models(loader, done)
        return _released[key]

    monkeypatch.setattr(MigrationExecutor, "migrate", _migrated)
    monkeypatch.setattr(tables, "_models", models)


def _migrated(executor: MigrationExecutor, targets: list[Any], *more: Any, **options: Any) -> Any:
    if more or options or connection.introspection.table_names():
        return _migrate(executor, targets, *more, **options)
    key = connection.vendor, tuple(targets)
    return (_of_sqlite if connection.vendor == "sqlite" else _of_postgresql)(key, lambda: _migrate(executor, targets))


def _of_sqlite(key: object, migrate: Callable[[], object]) -> None:
    connection.ensure_connection()
    if key in _files:
        _files[key].backup(connection.connection)
        return
    migrate()
    _files[key] = sqlite3.connect(":memory:", check_same_thread=False)
    connection.connection.backup(_files[key])


def _of_postgresql(key: object, migrate: Callable[[], object]) -> None:
    if key in _statements:
        with connection.cursor() as cursor:
            for statement in _statements[key]:
                cursor.execute(*statement)
        return
    told: list[tuple[Any, ...]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        assert not many
        told.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        migrate()
    _statements[key] = told
