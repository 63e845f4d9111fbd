"""``manage.py prepared``, which pods run before they start: a sentence for what is missing, and no traceback."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from portal.management.commands import prepared

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_migrated_database_is_not_waited_for() -> None:
    said = io.StringIO()
    call_command("prepared", stderr=said)
    assert said.getvalue() == ""


def test_it_says_once_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sayings = iter(["Waiting for the database.", "Waiting for the database.", "Waiting until it is migrated.", ""])
    slept: list[float] = []
    monkeypatch.setattr(prepared, "lacking", lambda: next(sayings))
    monkeypatch.setattr(prepared.time, "sleep", slept.append)
    said = io.StringIO()
    call_command("prepared", stderr=said)
    assert said.getvalue().split("\n") == ["Waiting for the database.", "Waiting until it is migrated.", ""]
    assert len(slept) == 3


def test_a_database_that_refuses_and_one_that_is_not_migrated_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = MigrationRecorder(prepared.connection)
    loader = MigrationLoader(prepared.connection)
    (newest,) = loader.graph.leaf_nodes("jobs")
    steps = [newest, *loader.disk_migrations[newest].replaces]
    for step in steps:
        recorder.record_unapplied(*step)
    try:
        assert prepared.lacking() == "Waiting until manage.py up --prepare has brought the database up to this release."
    finally:
        for step in steps:
            recorder.record_applied(*step)

    def refuses(*_: object) -> object:
        raise OperationalError('connection failed:\n  FATAL: no such role "longshore"')

    monkeypatch.setattr(prepared, "MigrationExecutor", refuses)
    assert prepared.lacking() == (
        'Waiting for the database. It says: connection failed: FATAL: no such role "longshore"'
    )
