"""Databases of earlier releases (tests/releases) come up to this one with every row, and the release before goes on
working on a database of this one."""

from __future__ import annotations

import io
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from pytest_django.fixtures import Settings

from base.hosts import joining
from base.models import ApiToken, User
from clusters.models import Node, VcGrant
from jobs.models import Holding, Job, Task
from jobs.services import submit
from portal.backup import load
from portal.backup.tables import from_neutral, loader_for, rows, tables_at
from portal.management.commands import up
from tests.helpers import LIMIT, until
from tests.releases import FIRST, LAST, ROOT, database

pytestmark = pytest.mark.django_db(transaction=True)
PASSPHRASE = "a long passphrase"
JOBS = {
    **{"was-succeeded": "SUCCEEDED", "was-failed": "FAILED", "was-stopped": "STOPPED"},
    **{"runs": "RUNNING", "waits": "WAITING", "legacy": "SUCCEEDED"},
}


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "home").mkdir()
    settings.HOME = tmp_path / "home"
    monkeypatch.setenv("LONGSHORE_BACKUP_PASSPHRASE", PASSPHRASE)
    yield


def manage(home: Path, *arguments: str) -> None:
    """A command of this release on the SQLite in that folder."""
    foreign = ("DATABASE_URL", "DJANGO_", "LONGSHORE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    settings = {"LONGSHORE_HOME": str(home), "LONGSHORE_BACKUP_PASSPHRASE": PASSPHRASE}
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    done = subprocess.run(command, env={**kept, **settings}, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("release", [FIRST, LAST])
def test_every_row_of_an_earlier_release_comes_up_to_this_one(release: str, tmp_path: Path) -> None:
    """Its SQLite is backed up as it is, and restored into the database of the test, which may be a PostgreSQL."""
    old = tmp_path / "old"
    old.mkdir()
    database(release, old / "longshore.sqlite3")
    manage(old, "backup", str(tmp_path / "b"))

    call_command("restore", str(tmp_path / "b"), stdout=io.StringIO())

    assert dict(Job.objects.values_list("name", "state")) == JOBS
    assert Task.objects.filter(job__name="runs", state="RUNNING").count() == 2
    assert list(Job.objects.filter(is_legacy=True).values_list("name", flat=True)) == ["legacy"]
    assert [gpu["type"] for gpu in Node.objects.get(name="gpu-01").gpus] == ["A100"] * 4
    if release == FIRST:  # a migration writes them
        assert Holding.objects.filter(job_name="runs", ended=None).count() == 2
    assert list(VcGrant.objects.values_list("vc__name", "username")) == [("vision", "alice")]
    alice = User.objects.get(username="alice")
    assert alice.password.startswith("argon2") and ApiToken.objects.get(user=alice).name == "kept"
    config = '{"jobName": "new", "image": "a", "taskRoles": [{"name": "a", "taskNumber": 1, "command": "true"}]}'
    assert submit(alice, config).pk > Job.objects.get(name="legacy").pk


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it is a database of SQLite")
def test_the_database_of_the_first_release_is_migrated_where_it_is(tmp_path: Path) -> None:
    file = database(FIRST, tmp_path / "longshore.sqlite3")
    manage(tmp_path, "migrate", "-v0")
    with closing(sqlite3.connect(file)) as migrated:
        assert dict(migrated.execute("SELECT name, state FROM jobs_job")) == JOBS
        assert migrated.execute("SELECT count(*) FROM jobs_holding").fetchone() == (5,)
        assert migrated.execute("PRAGMA foreign_key_check").fetchall() == []
        with connection.cursor() as made_at_once:
            assert _shape(migrated.cursor()) == _shape(made_at_once)


def _shape(cursor: Any) -> dict[str, Any]:
    """Columns and foreign keys of each of our tables in order of name, and the texts of the indexes."""

    def asked(question: str) -> list[tuple[Any, ...]]:
        return list(cursor.execute(question).fetchall())

    tables = [name for (name,) in asked("SELECT name FROM sqlite_master WHERE type = 'table'")]
    ours = [name for name in tables if name.startswith(("portal_", "clusters_", "jobs_"))]
    shape: dict[str, Any] = dict(asked("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''"))
    for name in ours:
        columns, keys = asked(f"PRAGMA table_info({name})"), asked(f"PRAGMA foreign_key_list({name})")
        shape[name] = sorted(each[1:] for each in columns), sorted(each[2:] for each in keys)
    assert [each[1] for each in asked("PRAGMA table_info(jobs_job)")][-2:] == ["config", "spec"]
    return shape


def test_the_release_before_writes_and_reads_its_own_columns_here(tmp_path: Path) -> None:
    """As it does while hosts are upgraded one after the other: its rows name no column that came since."""
    with closing(sqlite3.connect(database(LAST, tmp_path / "last"))) as last:
        done = list(last.execute("SELECT app, name FROM django_migrations WHERE app IN ('portal', 'clusters', 'jobs')"))
        tables = tables_at(loader_for(done), done)
        load._empty(reversed(tables))
        for table in tables:
            written = list(rows(last.cursor, table))
            load._insert(table, map(from_neutral(table), written))
            columns = ", ".join(f'"{name}"' for name, _ in table.columns)
            with connection.cursor() as cursor:
                cursor.execute(f'SELECT {columns} FROM "{table.name}"')
                assert len(cursor.fetchall()) == len(written)
    assert dict(Job.objects.values_list("name", "state")) == JOBS


def test_an_older_release_starts_on_the_database_of_a_newer_one_unless_that_took_away() -> None:
    said: list[str] = []
    recorder = MigrationRecorder(connection)
    try:
        recorder.record_applied("jobs", "9998_more")
        up.migrate(said.append)
        assert "of a newer release (jobs 9998_more); this one can work with it" in said[0]
        recorder.record_applied("jobs", "9999_contract_less")
        with pytest.raises(CommandError, match="taken away what this one needs: jobs 9999_contract_less"):
            up.migrate(said.append)
    finally:
        for name in ("9998_more", "9999_contract_less"):
            recorder.record_unapplied("jobs", name)


def test_one_host_migrates_and_the_others_wait_for_it() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite is one host's, and `up` takes the lock of its folder")
    said: list[str] = []
    with joining.one_host_at_a_time(said.append):
        other = threading.Thread(target=_migrate_elsewhere, args=[said])
        other.start()
        until(lambda: said, what="the other host waits")
        assert other.is_alive()
    other.join(LIMIT)
    assert (len(said), other.is_alive()) == (1, False)
    assert "another host brings the database up" in said[0]


def _migrate_elsewhere(said: list[str]) -> None:
    try:
        with joining.one_host_at_a_time(said.append):
            up.migrate(said.append)
    finally:
        connection.close()


def test_a_restore_that_was_broken_off_is_not_started(settings: Settings) -> None:
    (settings.HOME / "restoring.swap").touch()
    with pytest.raises(CommandError, match="was broken off"):
        call_command("up")
