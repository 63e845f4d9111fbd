"""Makes a backup: the rows of one moment, the secrets, and where it is asked for the files of users."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader

from base.core.words import count
from base.hosts import this_host
from base.models import AuditEvent
from portal.backup import files
from portal.backup.encryption import BackupError, Sealing, read_head, require_whole
from portal.backup.load import to_disk
from portal.backup.records import Records
from portal.backup.tables import applied, require_known, rows, snapshot, tables_at

# What ought to be the same where it is restored, or that running jobs have been given.
SETTINGS = (
    *("PUBLIC_URL", "STORE_URL", "STORE_USER", "DEFAULT_FS_URI", "APPS_DOMAIN", "APPS_URL"),
    *("ANONYMOUS_READ", "JOB_PRIVACY", "IS_V0", "TIME_ZONE"),
)
BACKED_UP = "backed up"  # an action of the audit; its data has the files of users, where they were in it
_FULL = "Nothing is left of this backup."


@dataclass(frozen=True, slots=True)
class Made:
    size: int  # bytes
    checksum: str  # hex
    rows: Mapping[str, int]  # by table
    files: files.Count | None


def make(target: str, passphrase: str, *, with_files: bool = False) -> Made:
    """Write a backup to the file ``target`` (``-``: to standard output), while everything runs. The file is there once
    it is whole. BackupError when it cannot be made; then there is none."""
    if with_files and settings.STORE_URL:
        raise BackupError("The files of users are on LONGSHORE_STORE_URL; back them up there, and leave out --files.")
    try:
        with _output(target) as file:
            return _write(file, passphrase, with_files=with_files)
    except (DatabaseError, sqlite3.Error) as error:
        raise BackupError(f"The database does not work: {str(error).strip()}") from error
    except OSError as error:
        raise BackupError(f"{target} cannot be written: {error.strerror}. {_FULL}") from error


def shrunk(files: int) -> str:
    """A sentence when the last backup with files of users had more than twice as many, else empty."""
    # Only these columns: the database may be of an earlier release.
    earlier = AuditEvent.objects.filter(action=BACKED_UP, data__has_key="files").order_by("-id")
    data, at = earlier.values_list("data", "at").first() or ({"files": 0}, None)
    if files * 2 >= data["files"]:
        return ""
    return (
        f"It has {count(files, 'file')} of users, and the last one had {data['files']:,} ({at:%F %R} UTC). "
        "Are they gone from the store? Keep the older backups; if it is right so, back up once with --fewer."
    )


def about() -> dict[str, Any]:
    """What a backup says of this installation."""
    return {
        "release": settings.VERSION,
        "instance": settings.INSTANCE,
        "home": str(settings.HOME),
        "host": this_host.host_id(),
        "database": connection.vendor,
        "keys": {f"LONGSHORE_{name}": _fingerprint(getattr(settings, name)) for name in ("SECRET_KEY", "TOKEN_KEY")},
        "settings": {name: getattr(settings, name) for name in SETTINGS},
    }


def _fingerprint(key: str) -> str:
    return hashlib.sha256(f"longshore fingerprint {key}".encode()).hexdigest()[:16]


def _write(file: BinaryIO, passphrase: str, *, with_files: bool) -> Made:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    box = Sealing(file, passphrase, {"release": settings.VERSION, "made": now})
    records = Records(box)
    written = _write_rows(records)
    files.keep_secrets(records)
    kept = files.keep_store(records) if with_files else None
    return Made(checksum=records.close(), size=box.size, rows=written, files=kept)


def _write_rows(records: Records) -> dict[str, int]:
    """The list of migrations belongs to the same moment as the rows."""
    with snapshot() as taken:
        loader = MigrationLoader(connection)
        done = applied(loader)
        require_known(loader, done, "The database")
        if not done:
            raise BackupError("There is nothing to back up: the database has no tables of Longshore.")
        tables = tables_at(loader, done)
        records.note("about", **about(), migrations=done)
        written = {}
        for table in tables:
            records.note("table", **asdict(table))
            written[table.name] = 0
            for row in rows(taken.cursor, table):
                records.row(row)
                written[table.name] += 1
        records.note(
            "counters", last={table.name: taken.counted(table) for table in tables if table.counter}, rows=written
        )
    return written


@contextmanager
def _output(target: str) -> Iterator[BinaryIO]:
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    part = path.with_name(f"{path.name}.part")
    if path.exists():
        raise BackupError(f"{path} exists already. Name another file, or remove it first.")
    # A folder that others write may have a link or a file of theirs in the way.
    with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
        _lock(file, path)
        try:
            yield file
            _finish(file, part, path)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()


def _lock(file: BinaryIO, path: Path) -> None:
    """What a killed backup left under this name is written over, and nothing of anybody else."""
    if os.fstat(file.fileno()).st_uid != os.geteuid():
        raise BackupError(f"{path}.part is a file of another user. Name another file, or remove it first.")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BackupError(f"Another backup is being written to {path}.") from None
    os.fchmod(file.fileno(), 0o600)
    file.truncate()


def _finish(file: BinaryIO, part: Path, path: Path) -> None:
    """Give the file its name, once all of it is on the disk and was read again."""
    file.flush()
    os.fsync(file.fileno())
    file.seek(0)
    require_whole(file, read_head(file))
    try:
        os.link(part, path)  # unlike rename it replaces no other file
    except FileExistsError:
        raise BackupError(f"{path} exists already. Name another file, or remove it first.") from None
    except OSError:  # a file system without links
        part.rename(path)
    to_disk(path.parent)
