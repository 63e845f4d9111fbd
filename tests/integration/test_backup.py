"""``manage.py backup`` and ``restore`` on a database of the test: what comes back, what does not, what is refused."""

from __future__ import annotations

import io
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from django_q.models import OrmQ
from pytest_django.fixtures import Settings

from base.accounts import audit, tokens
from base.files.store import local_root
from base.hosts import predecessor, shared
from base.models import ApiToken, AuditEvent, Heartbeat, LeaseRow, Shared, Ticket, User
from base.wakes.lease import Fenced, Lease
from clusters.models import Node
from jobs.models import Event, Job, JobSecrets, Replay, Task
from portal.backup import after_restore, encryption, make, records, restore
from portal.backup.make import about
from portal.backup.records import Records
from portal.backup.tables import applied
from tests import migrated
from tests.builders import make_job, make_node

pytestmark = pytest.mark.django_db(transaction=True)
PASSPHRASE = "a long passphrase"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LONGSHORE_BACKUP_PASSPHRASE", PASSPHRASE)
    monkeypatch.setattr(encryption, "_MEMORY", 64)
    monkeypatch.setattr(restore.time, "sleep", lambda seconds: None)
    migrated.once(monkeypatch)
    yield
    shutil.rmtree(local_root(), ignore_errors=True)


def backed_up(path: Path, *options: str) -> Path:
    call_command("backup", str(path), *options, stderr=io.StringIO())
    return path


def restored(path: Path, *options: str) -> str:
    said = io.StringIO()
    call_command("restore", str(path), *options, stdout=said)
    return said.getvalue()


def everything() -> dict[str, list[tuple[object, ...]]]:
    """All rows of a backup's tables, as the database has them."""
    found = {}
    with connection.cursor() as cursor:
        for model in (Job, Task, Event, JobSecrets, Node, User, ApiToken):
            table = model._meta.db_table
            columns = ", ".join(f'"{field.column}"' for field in model._meta.concrete_fields)
            cursor.execute(f'SELECT {columns} FROM "{table}" ORDER BY 1')
            found[table] = cursor.fetchall()
    return found


def test_every_row_comes_back_and_what_is_passing_does_not(tmp_path: Path) -> None:
    alice = User.objects.create_user("alice", PASSPHRASE)
    token = tokens.issue(alice, 3600)
    node = make_node(gpus=2, labels={"zone": "ä", "odd": "\\u0000"})
    for at in range(3):
        make_job("alice", f"job-{at}", state="RUNNING", node=node)
    job = make_job("alice", "gone", state="SUCCEEDED")
    JobSecrets.objects.create(job=Job.objects.get(name="job-1"), sealed="sealed")
    last = job.pk
    job.delete()
    Ticket.objects.create(id_hash="x", path="/", credential="c", expires_at=timezone.now() + timedelta(hours=1))
    Session.objects.create(session_key="s", session_data="", expire_date=timezone.now() + timedelta(hours=1))
    OrmQ.objects.create(key="longshore", payload="order", lock=timezone.now())
    Heartbeat.objects.create(name="workers", at=timezone.now())
    before = everything()

    restored(backed_up(tmp_path / "b"), "--replace")

    assert everything() == before
    assert [model.objects.count() for model in (Ticket, Session, OrmQ, Heartbeat)] == [0, 0, 0, 0]
    assert tokens.user_of(token) == alice
    assert AuditEvent.objects.filter(action="restored").count() == 1
    assert make_job("alice", "new").pk > last, "no number is given twice"


def test_claims_go_and_whoever_held_a_lease_is_fenced_off(tmp_path: Path) -> None:
    make_job("alice", "pulls", state="RUNNING", node=make_node())
    Task.objects.update(claim="t", claimed_until=timezone.now() + timedelta(hours=1), progress="pulling")
    Replay.objects.create(username="alice", asked={}, made=1)
    elsewhere = Lease("scheduler", holder="another host")
    assert elsewhere.try_take()
    path = backed_up(tmp_path / "b")
    LeaseRow.objects.update(epoch=7_000_000)  # it changed hands very often since

    restored(path, "--replace")

    assert Task.objects.filter(claim="", claimed_until=None, progress="").count() == 1
    assert Replay.objects.exclude(error="").count() == 1
    assert LeaseRow.objects.get().epoch > 7_000_000
    with pytest.raises(Fenced), elsewhere.writing():
        pass


def test_a_process_that_stood_still_meanwhile_goes_on_with_what_was_restored(tmp_path: Path) -> None:
    """It has a connection of before, as the threads of one that is stopped and goes on have. It does not look again by
    itself: a scheduler closes no connection that works."""
    path, elsewhere = backed_up(tmp_path / "b"), Lease("scheduler", holder="another host")

    def writes() -> None:
        with elsewhere.writing():
            pass

    with ThreadPoolExecutor(1) as still:
        assert still.submit(elsewhere.try_take).result()
        still.submit(writes).result()
        restored(path, "--replace")
        token = tokens.issue(alice := User.objects.create_user("alice", PASSPHRASE), 3600)
        assert still.submit(tokens.user_of, token).result() == alice
        with pytest.raises(Fenced):
            still.submit(writes).result()
        still.submit(User.objects.create_user, "bob", PASSPHRASE).result()
        still.submit(connections.close_all).result()
    assert User.objects.count() == 2


def test_files_and_keys_come_back_in_another_folder(tmp_path: Path, settings: Settings) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    settings.HOME = old
    keys = old / "secrets/nodes/node-1/v1"
    keys.mkdir(parents=True)
    (keys / "key.pem").write_text("a key")
    make_node(tls_dir=str(keys))
    make_node("elsewhere", tls_dir="/etc/keys/of/elsewhere")
    code = old / "store/users/alice/train.py"
    code.parent.mkdir(parents=True)
    code.write_text("print(1)\n")
    os.utime(code, (1_700_000_000, 1_700_000_000))
    path = backed_up(tmp_path / "b", "--files")
    new.mkdir()
    settings.HOME = new

    said = restored(path, "--replace")

    there = new / "store/users/alice/train.py"
    assert (there.read_text(), there.stat().st_mtime) == ("print(1)\n", 1_700_000_000)
    key = new / "secrets/nodes/node-1/v1/key.pem"
    assert (key.read_text(), key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == ("a key", 0o600, 0o700)
    assert "The keys of elsewhere are not in /etc/keys/of/elsewhere" in said
    assert Node.objects.get(name="node-1").tls_dir == str(new / "secrets/nodes/node-1/v1")
    assert "1 file of users" in said
    assert sorted(each.name for each in new.iterdir()) == ["host-id", "secrets", "store", "up.lock"]


def test_a_wrong_or_broken_file_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_job("alice", "stays")
    path = backed_up(tmp_path / "b")
    data = path.read_bytes()
    (tmp_path / "cut").write_bytes(data[:-40])
    (tmp_path / "text").write_text("no backup at all")
    make_job("alice", "later")
    for name, sentence in (("cut", "not whole"), ("text", "no backup"), ("none", "cannot be read")):
        with pytest.raises(CommandError, match=sentence):
            restored(tmp_path / name, "--replace")
    monkeypatch.setenv("LONGSHORE_BACKUP_PASSPHRASE", "another passphrase")
    with pytest.raises(CommandError, match="passphrase is not"):
        restored(path, "--replace")
    assert sorted(Job.objects.values_list("name", flat=True)) == ["later", "stays"]
    left = {each.name for each in local_root().parent.iterdir()}
    assert not [name for name in left if "restoring" in name]


def written(path: Path, *notes: dict[str, object]) -> Path:
    """A backup of this installation that somebody with the passphrase has made by hand: ``about`` and these notes."""
    with path.open("wb") as file:
        records = Records(encryption.Sealing(file, PASSPHRASE, {"release": "1"}))
        records.note("about", **about(), migrations=applied(MigrationLoader(connection)))
        for note in notes:
            records.note(**note)
            if note["kind"] == "file":
                records.piece(b"x")
        records.close()
    return path


@pytest.mark.parametrize(
    ("place", "target"), [("store", "a/../../../evil"), ("secrets", "/tmp/longshore-evil"), ("etc", "evil")]
)
def test_no_file_leaves_the_folder_that_it_is_restored_to(
    tmp_path: Path, settings: Settings, place: str, target: str
) -> None:
    settings.HOME = tmp_path / "home"
    settings.HOME.mkdir()
    path = written(tmp_path / "b", {"kind": "file", "place": place, "path": target})
    with pytest.raises(CommandError, match="no place of Longshore's"):
        restored(path, "--replace")
    assert not list(tmp_path.rglob("*evil*")) and not Path("/tmp/longshore-evil").exists()


def test_a_backup_with_other_rows_than_it_says_is_refused(tmp_path: Path) -> None:
    make_job("alice", "stays")
    path = written(tmp_path / "b", {"kind": "counters", "rows": {"jobs_job": 1}, "last": {}})
    with pytest.raises(CommandError, match="has 0 rows of jobs_job, and says 1"):
        restored(path, "--replace")
    assert Job.objects.get().name == "stays"


def test_a_backup_of_other_keys_than_the_environment_gives_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    path = backed_up(tmp_path / "b")
    monkeypatch.setenv("LONGSHORE_SECRET_KEY", "another")
    settings.SECRET_KEY = "another"
    with pytest.raises(CommandError, match="LONGSHORE_SECRET_KEY is set to another key"):
        restored(path)


def test_keys_that_are_in_the_database_alone_are_not_missing(tmp_path: Path, settings: Any) -> None:
    """As on a host of several that has never spoken with the node."""
    settings.HOME = tmp_path / "new"
    settings.HOME.mkdir()
    there = "/var/of/another/host/secrets/nodes/gpu-7/v1"
    make_node("gpu-7", tls_dir=there)
    value = shared._sealed("nodes/gpu-7/v1/key.pem", b"a key")
    Shared.objects.create(name="file:nodes/gpu-7/v1/key.pem", value=value)
    assert list(after_restore.missing_keys()) == []
    assert (shared.tls_here(there) / "key.pem").read_bytes() == b"a key"


def test_an_installation_with_jobs_is_not_replaced_by_accident(tmp_path: Path) -> None:
    path = backed_up(tmp_path / "b")
    make_job("alice", "precious")
    with pytest.raises(CommandError, match=r"has 1 job.*--replace"):
        restored(path)
    assert Job.objects.get().name == "precious"


def test_one_that_still_runs_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = backed_up(tmp_path / "b")
    LeaseRow.objects.create(name="scheduler", epoch=3)
    monkeypatch.setattr(restore.time, "sleep", lambda seconds: LeaseRow.objects.update(beats=9))
    with pytest.raises(CommandError, match="its scheduler is alive"):
        restored(path)


def test_a_backup_of_a_newer_release_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with path.open("wb") as file:
        written = Records(encryption.Sealing(file, PASSPHRASE, {"release": "9.9"}))
        written.note("about", **about(), migrations=[["jobs", "0001_initial"], ["jobs", "9999_contract_all"]])
        written.close()
    with pytest.raises(CommandError, match="of a newer release of Longshore: this one does not know jobs 9999"):
        restored(path)
    assert "newer release" in restored(path, "--check")


def test_the_database_of_a_newer_release_is_not_half_backed_up(tmp_path: Path) -> None:
    MigrationRecorder(connection).record_applied("jobs", "9999_future")
    try:
        with pytest.raises(CommandError, match="The database is of a newer release"):
            backed_up(tmp_path / "b")
    finally:
        MigrationRecorder(connection).record_unapplied("jobs", "9999_future")
    assert list(tmp_path.iterdir()) == []


def test_check_tells_what_is_in_it_and_needs_no_passphrase_for_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("alice", "one")
    path = backed_up(tmp_path / "b")
    Job.objects.all().delete()
    assert "1 job, 0 users, 0 nodes, secrets, no files of users" in restored(path, "--check")
    monkeypatch.delenv("LONGSHORE_BACKUP_PASSPHRASE")
    assert "is whole" in restored(path, "--check")
    assert Job.objects.count() == 0


def test_a_backup_takes_nobodys_place_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = backed_up(tmp_path / "b")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="exists already"):
        backed_up(path)
    assert [each.name for each in tmp_path.iterdir()] == ["b"]


def test_a_backup_writes_over_nothing_that_others_have_put_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_text("as it was")
    (tmp_path / "b.part").symlink_to(tmp_path / "precious")
    with pytest.raises(CommandError, match="cannot be written"):
        backed_up(tmp_path / "b")
    assert (tmp_path / "precious").read_text() == "as it was"
    (tmp_path / "c.part").touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CommandError, match="is a file of another user"):
        backed_up(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_short_passphrase_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHORE_BACKUP_PASSPHRASE", "short")
    with pytest.raises(CommandError, match="fewer than 12"):
        backed_up(tmp_path / "b")


def test_a_backup_that_is_ended_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending(records.Records):
        def row(self, row: records.Row) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    make_node()
    monkeypatch.setattr(make, "Records", Ending)
    with pytest.raises(SystemExit):
        backed_up(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler, "that of the tests again"


def waits() -> bool:
    return bool(predecessor.sentence())


def test_a_copy_elsewhere_waits_until_an_admin_says_that_the_other_is_gone(tmp_path: Path, settings: Settings) -> None:
    """The backup is of a portal that runs on, with a LONGSHORE_HOME and a database of its own."""
    settings.HOME = tmp_path / "live"
    settings.HOME.mkdir()
    audit.record("first start", "user made", "admin")
    path = backed_up(tmp_path / "b")
    AuditEvent.objects.all().delete()  # another database, another folder
    settings.HOME = tmp_path / "elsewhere"
    settings.HOME.mkdir()

    assert predecessor.SAY in restored(path, "--replace") and waits()
    assert predecessor.SAY in restored(path, "--replace") and waits(), "the copy is no sign that the other is gone"
    copy = backed_up(tmp_path / "of the copy")
    restored(copy, "--replace")
    assert waits(), "nor is a backup of the copy"

    assert said_gone() == "What was restored here goes on now.\n" and not waits()
    assert said_gone() == "Nothing here waits for that.\n"
    assert AuditEvent.objects.filter(action="old installation gone").count() == 1
    assert predecessor.SAY not in restored(path, "--replace"), "this one has the place of the other now"

    AuditEvent.objects.all().delete()
    assert predecessor.SAY not in restored(path, "--replace", "--old-is-gone") and not waits()
    with pytest.raises(CommandError, match="Name the file"):
        call_command("restore")


def test_where_the_old_one_was_nobody_need_say_that_it_is_gone(tmp_path: Path, settings: Settings) -> None:
    audit.record("first start", "user made", "admin")
    path = backed_up(tmp_path / "b")
    assert predecessor.SAY not in restored(path, "--replace") and not waits(), "the same database"
    AuditEvent.objects.all().delete()
    restored(path, "--replace")
    assert waits() == (connection.vendor == "postgresql"), "the lock of the folder is that of an SQLite's portal alone"


def said_gone() -> str:
    said = io.StringIO()
    call_command("restore", "--old-is-gone", stdout=said)
    return said.getvalue()
