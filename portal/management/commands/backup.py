"""``manage.py backup FILE``: all that is needed to go on elsewhere, while the portal runs (docs/run/backup.md)."""

from __future__ import annotations

import getpass
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from base.accounts import audit
from base.core.env import text
from base.core.words import count, size
from portal.backup.encryption import BackupError
from portal.backup.make import BACKED_UP, Made, make, shrunk

VARIABLE = "LONGSHORE_BACKUP_PASSPHRASE"
_SHORTEST = 12  # characters of a passphrase
_LONGEST = 200  # characters of a name in the audit


class Command(BaseCommand):
    help = "Write database and secrets to one encrypted file, while the portal runs."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="a new file, or - for standard output")
        parser.add_argument("--files", action="store_true", help="with the files of users and logs of jobs")
        parser.add_argument(
            "--fewer", action="store_true", help="it is right that files are gone since the last backup"
        )
        parser.add_argument("--passphrase-file", default="", help=f"else {VARIABLE}, else it is asked")

    def handle(self, *args: Any, **options: Any) -> None:
        target = options["file"]
        try:
            with cleaned_up():
                made = make(target, given(options["passphrase_file"], new=True), with_files=options["files"])
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.stderr.write(_sentence("The backup" if target == "-" else target, made))
        if made.files and not options["fewer"] and (sentence := shrunk(made.files.files)):
            raise CommandError(sentence)
        data = {"files": made.files.files, "bytes": made.files.bytes} if made.files else {}
        with suppress(
            DatabaseError
        ):  # before an upgrade the table of the audit may lack columns that this release writes
            audit.record("manage.py backup", BACKED_UP, target[-_LONGEST:], data=data)


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Whoever ends the command meanwhile finds nothing half written."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _sentence(target: str, made: Made) -> str:
    jobs, users = count(made.rows["jobs_job"], "job"), count(made.rows["portal_user"], "user")
    files = f"{count(made.files.files, 'file')} of users" if made.files else "without files of users (--files)"
    return (
        f"{target} is whole: {jobs}, {users}, secrets, {files}; {size(made.size)}, SHA-256 {made.checksum}. "
        "What tasks used (metrics) is not in it."
    )


def given(file: str, *, new: bool) -> str:
    """The passphrase; empty when nobody was there to give one. ``new``: it is chosen now, so it must be long enough,
    and whoever types it does so twice."""
    passphrase = _read(file) if file else text(VARIABLE, "")
    if not passphrase and sys.stdin.isatty():
        passphrase = _asked(new=new)
    if new and len(passphrase) < _SHORTEST:
        raise BackupError(
            f"The passphrase has fewer than {_SHORTEST} characters. It protects passwords, tokens and keys: give a"
            f" longer one by --passphrase-file FILE or {VARIABLE}_FILE, and keep it where the backup is not."
        )
    return passphrase


def _read(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BackupError(f"{file} cannot be read: {why}.") from error


def _asked(*, new: bool) -> str:
    typed = getpass.getpass("Passphrase of the backup: ")
    if new and typed and getpass.getpass("Once more: ") != typed:
        raise BackupError("The two are not the same.")
    return typed
