"""Restores a backup, all of it or nothing, and tells what is in one."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.db import DatabaseError
from django.db.migrations.loader import MigrationLoader

from base.core.bulk import one_row
from base.core.env import text
from base.core.words import count
from base.models import Heartbeat, LeaseRow, Process
from base.wakes import processes
from portal.backup import after_restore, files
from portal.backup.encryption import DISORDER, BackupError, Head, opened, read_head, require_whole
from portal.backup.load import Loading, new_database, ours
from portal.backup.make import about
from portal.backup.records import read
from portal.backup.tables import Migration, require_known

Say = Callable[[str], None]
_LOOK = 2 * processes.EVERY  # seconds: workers look only every four whether their sign is due


@dataclass(slots=True)
class BackupContents:
    """What is in a backup. ``about`` is empty where nobody gave the passphrase."""

    head: Head
    about: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)  # numbers that tables have given
    files: int = 0  # of users
    bytes: int = 0
    newer: str = ""  # a sentence: why this release cannot restore it

    @property
    def made(self) -> str:
        return str(self.head.says.get("made", ""))

    @property
    def migrations(self) -> list[Migration]:
        return [(app, name) for app, name in self.about["migrations"]]


def look(source: str, passphrase: str) -> BackupContents:
    """Read a backup to its end and change nothing. BackupError when it is damaged or not whole; what needs the
    passphrase is left out without one."""
    with _source(source) as file:
        contents = BackupContents(read_head(file))
        if not passphrase:
            require_whole(file, contents.head)
            return contents
        for _ in _told(read(opened(file, passphrase, contents.head)), contents):
            pass
    try:
        require_known(MigrationLoader(None), contents.migrations, "The backup")
    except BackupError as error:
        contents.newer = str(error)
    return contents


def restore(source: str, passphrase: str, *, replace: bool, say: Say, old_is_gone: bool = False) -> BackupContents:
    """Put what is in the backup in the place of this installation. BackupError when that cannot be; then nothing has
    changed. The caller holds the lock of LONGSHORE_HOME. ``old_is_gone``: an admin says that the installation which was
    backed up runs nowhere any more."""
    try:
        _require_possible(replace=replace, say=say)
        with _source(source) as file:
            contents = BackupContents(read_head(file))
            records = read(opened(file, passphrase, contents.head))
            _put(_told(records, contents), contents, files.Staged(replace=replace), old_is_gone=old_is_gone)
            return contents
    except (DatabaseError, sqlite3.Error) as error:
        raise BackupError(f"The database does not take it: {str(error).strip()}. Nothing has changed.") from error
    except OSError as error:
        raise BackupError(f"{error.filename or settings.HOME}: {error.strerror}. Nothing has changed.") from error


def broken_off() -> str:
    """A sentence when a restore was ended while it put things in their places, else empty."""
    if not _swapping().exists():
        return ""
    return "A restore was broken off while it changed this installation. Run it again: manage.py restore --replace FILE"


def differences(contents: BackupContents) -> Iterator[str]:
    """A sentence for each setting that is another one here."""
    here = about()["settings"]
    for name, there in contents.about.get("settings", {}).items():
        if name in here and here[name] != there:
            yield f"{name} was {there!r} where the backup was made and is {here[name]!r} here."


def _told(records: Iterable[tuple[str, Any]], contents: BackupContents) -> Iterator[tuple[str, Any]]:
    """The records as they come; ``contents`` learns what is in them."""
    in_store = False  # whether the bytes that come are of a user's file
    for kind, value in records:
        if kind == "bytes":
            contents.bytes += len(value) if in_store else 0
        elif kind == "about":
            contents.about = value
        elif kind == "counters":
            contents.rows, contents.last = value["rows"], value["last"]
        elif kind == "file":
            in_store = value["place"] == files.STORE
            contents.files += in_store and not value.get("folder")
        yield kind, value


def _put(
    records: Iterable[tuple[str, Any]], contents: BackupContents, staged: files.Staged, *, old_is_gone: bool
) -> None:
    """Put all that comes beside this installation, and then in its place."""
    before, replaced, was_broken = after_restore.epochs(), after_restore.replaced(), _swapping().exists()
    try:
        with new_database():
            loading = _load(records, contents, staged)
            loading.require_complete(contents.rows)
            loading.finish(contents.last)
            staged.finish()
            after_restore.beware(contents.about, replaced, contents.made)
            after_restore.settle(contents.about, before, contents.made, staged.marker())
            if old_is_gone:
                after_restore.confirm_gone()
            _swapping().touch()
    except BaseException:
        staged.drop()
        if not was_broken:
            _swapping().unlink(missing_ok=True)
        raise
    staged.swap()
    staged.drop()
    _swapping().unlink()


def _load(records: Iterable[tuple[str, Any]], contents: BackupContents, staged: files.Staged) -> Loading:
    loading: Loading | None = None
    for kind, value in records:
        if kind == "about":
            _require_same_keys(value)
            loading = Loading(contents.migrations)
        elif kind == "file":
            staged.begin(value)
        elif kind == "bytes":
            staged.add(value)
        elif loading is None:
            break
        elif kind == "table":
            loading.table(value)
        elif kind == "rows":
            loading.rows(value)
    if loading is None:
        raise BackupError(DISORDER)
    return loading


def _require_possible(*, replace: bool, say: Say) -> None:
    if not replace and (what := _occupied()):
        raise BackupError(
            f"This installation has {what}. Make a backup of it, then add --replace: what it has is then gone."
        )
    require_still(say)


def _occupied() -> str:
    """What a restore would take away: jobs, and users beside the first."""
    there = ours()
    jobs, users = (_rows_in(table) if table in there else 0 for table in ("jobs_job", "portal_user"))
    parts = [count(jobs, "job")] * bool(jobs) + [count(users, "user")] * (users > 1)
    return " and ".join(parts)


def _rows_in(table: str) -> int:
    return int(one_row(f'SELECT count(*) FROM "{table}"')[0])  # noqa: S608 - our own names


def require_still(say: Say) -> None:
    """BackupError when a process of this installation lives, on whichever host: it writes its row every few seconds.
    Its clock does not count, only that the row changes."""
    there = set(ours())
    if {Heartbeat._meta.db_table, LeaseRow._meta.db_table} <= there and (first := _signs()):
        say(f"Looking for {_LOOK:g} s whether a process of this installation still runs ...")
        time.sleep(_LOOK)
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
