"""Restores a backup, all of it or nothing, and tells what is in one."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader

from portal.backup import files, settle
from portal.backup.box import DISORDER, BackupError, Head, Opening, read_head, require_whole
from portal.backup.load import Loading, new_database, ours
from portal.backup.make import about
from portal.backup.records import Bytes, Note, Rows, read
from portal.backup.tables import require_known
from portal.core.env import text
from portal.core.words import count
from portal.files.store import local_root
from portal.models import Heartbeat, LeaseRow, Process
from portal.wakes import beats

Say = Callable[[str], None]


@dataclass(slots=True)
class Contents:
    """What is in a backup. ``about`` is empty where nobody gave the passphrase."""

    head: Head
    about: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    files: int = 0  # of users
    bytes: int = 0
    newer: str = ""  # a sentence: why this release cannot restore it

    @property
    def made(self) -> str:
        return str(self.head.says.get("made", ""))


def look(source: str, passphrase: str) -> Contents:
    """Read a backup to its end and change nothing. BackupError when it is damaged or not whole; what needs the
    passphrase is left out without one."""
    with _source(source) as file:
        found = Contents(read_head(file))
        if not passphrase:
            require_whole(file, found.head)
            return found
        in_store = False
        for record in read(Opening(file, passphrase, found.head)):
            if isinstance(record, Bytes):
                found.bytes += len(record.data) if in_store else 0
            elif isinstance(record, Note):
                in_store = _look_at(record, found)
        return found


def restore(source: str, passphrase: str, *, replace: bool, say: Say) -> Contents:
    """Put what is in the backup in the place of this installation. BackupError when that cannot be; then nothing has
    changed. The caller holds the lock of LONGSHORE_HOME."""
    try:
        _require_possible(replace=replace, say=say)
        with _source(source) as file:
            head = read_head(file)
            box = Opening(file, passphrase, head)
            return _Restoring(head, replace=replace).run(box)
    except (DatabaseError, sqlite3.Error) as error:
        raise BackupError(f"The database does not take it: {str(error).strip()}. Nothing has changed.") from error
    except OSError as error:
        raise BackupError(f"{error.filename or settings.HOME}: {error.strerror}. Nothing has changed.") from error


def broken_off() -> str:
    """A sentence when a restore was ended while it put things in their places, else empty."""
    if not _swapping().exists():
        return ""
    return "A restore was broken off while it changed this installation. Run it again: manage.py restore --replace FILE"


def differences(contents: Contents) -> Iterator[str]:
    """A sentence for each setting that is another one here."""
    here = about()["settings"]
    for name, there in contents.about.get("settings", {}).items():
        if name in here and here[name] != there:
            yield f"{name} was {there!r} where the backup was made and is {here[name]!r} here."


class _Restoring:
    def __init__(self, head: Head, *, replace: bool) -> None:
        self.contents = Contents(head)
        self.replace = replace
        self.staged = files.Staged()
        self.last: Mapping[str, int] = {}
        self.loading: Loading | None = None

    def run(self, box: Opening) -> Contents:
        before, was_broken = settle.epochs(), _swapping().exists()
        try:
            with new_database():
                for record in read(box):
                    self._take(record)
                self._finish(before)
                _swapping().touch()
        except BaseException:
            self.staged.drop()
            if not was_broken:
                _swapping().unlink(missing_ok=True)
            raise
        self.staged.swap()
        self.staged.drop()
        _swapping().unlink()
        return self.contents

    def _take(self, record: Note | Rows | Bytes) -> None:
        if isinstance(record, Bytes):
            self.staged.add(record.data)
        elif isinstance(record, Note):
            self._note(record.kind, record.says)
        else:
            self._loading().rows(record.rows)

    def _note(self, kind: str, says: Mapping[str, Any]) -> None:
        if kind == "about":
            _require_same_keys(says)
            self.contents.about = says
            self.loading = Loading([(app, name) for app, name in says["migrations"]])
        elif kind == "table":
            self._loading().table(says)
        elif kind == "counters":
            self.contents.rows, self.last = says["rows"], says["last"]
        elif kind == "file":
            self._file(says)

    def _file(self, says: Mapping[str, Any]) -> None:
        if says["place"] == files.STORE and not self.contents.files:
            _require_room(replace=self.replace)
        self.contents.files += says["place"] == files.STORE and not says.get("folder")
        self.staged.begin(says)

    def _finish(self, before: Mapping[str, int]) -> None:
        self._loading().require_complete(self.contents.rows)
        self._loading().finish(self.last)
        self.staged.finish()
        settle.settle(self.contents.about, before, self.contents.made, self.staged.marker())

    def _loading(self) -> Loading:
        if self.loading is None:
            raise BackupError(DISORDER)
        return self.loading


def _look_at(note: Note, found: Contents) -> bool:
    """Whether bytes of a user's file follow."""
    if note.kind == "about":
        found.about = note.says
        try:
            require_known(MigrationLoader(None), [(app, name) for app, name in note.says["migrations"]], "The backup")
        except BackupError as error:
            found.newer = str(error)
    elif note.kind == "counters":
        found.rows = note.says["rows"]
    is_users = note.kind == "file" and note.says["place"] == files.STORE
    found.files += is_users and not note.says.get("folder")
    return is_users


def _require_possible(*, replace: bool, say: Say) -> None:
    if not replace and (what := _occupied()):
        raise BackupError(
            f"This installation has {what}. Make a backup of it, then add --replace: what it has is then gone."
        )
    _require_still(say)


def _occupied() -> str:
    """What a restore would take away: jobs, and users beside the first."""
    there = ours()
    jobs, users = (_rows_in(table) if table in there else 0 for table in ("jobs_job", "portal_user"))
    found = [count(jobs, "job")] * bool(jobs) + [count(users, "user")] * (users > 1)
    return " and ".join(found)


def _rows_in(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT count(*) FROM "{table}"')  # noqa: S608 - our own names
        return int(cursor.fetchone()[0])


def _require_still(say: Say) -> None:
    """BackupError when a process of this installation lives, on whichever host: it writes its row every few seconds.
    Its clock does not count, only that the row changes."""
    there = set(ours())
    if {Heartbeat._meta.db_table, LeaseRow._meta.db_table} <= there and (first := _signs()):
        say(f"Looking for {2 * beats.EVERY:g} s whether a process of this installation still runs ...")
        time.sleep(2 * beats.EVERY)
        if moved := sorted(name for name, sign in _signs().items() if sign != first.get(name)):
            raise BackupError(f"This installation runs: its {moved[0]} is alive. Stop it on every host first.")


def _signs() -> dict[str, Any]:
    leases = {name: (epoch, beaten) for name, epoch, beaten in LeaseRow.objects.values_list("name", "epoch", "beats")}
    beaten = {name: (at, leases.get(name)) for name, at in Heartbeat.objects.values_list("name", "at")}
    if Process._meta.db_table not in ours():
        return leases | beaten
    shown = Process.objects.values_list("name", "pid", "host_name", "at")
    return leases | beaten | {f"{name} (process {pid} of host {host})": at for name, pid, host, at in shown}


def _require_same_keys(says: Mapping[str, Any]) -> None:
    """A key that the environment gives cannot be restored, so it must be the same one."""
    here = about()["keys"]
    for name, there in says["keys"].items():
        if text(name, "") and here[name] != there:
            raise BackupError(f"{name} is set to another key than the backup's. Unset it, or set it to the same key.")


def _require_room(*, replace: bool) -> None:
    """For files of users."""
    if files.has_files() and not replace:
        raise BackupError(
            f"{local_root()} has files, and so has the backup. Add --replace: files of the same name are then those of"
            " the backup, others stay."
        )
    if settings.STORE_URL:
        raise BackupError("The backup has files of users, and LONGSHORE_STORE_URL is no folder. Unset it to restore.")


@contextmanager
def _source(source: str) -> Iterator[BinaryIO]:
    if source == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(source).open("rb")
    except OSError as error:
        raise BackupError(f"{source} cannot be read: {error.strerror}.") from error
    with file:
        yield file


def _swapping() -> Path:
    """The file that is there while a restore puts one thing after the other in its place."""
    return Path(settings.HOME) / "restoring.swap"
