"""``manage.py restore FILE``: an installation as it was when the backup was made (docs/run/backup.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from base.core.words import count, size
from base.files.store import local_root
from base.hosts import predecessor
from portal.backup.after_restore import confirm_gone, missing_keys
from portal.backup.encryption import BackupError
from portal.backup.restore import BackupContents, differences, look, restore
from portal.management.commands.backup import VARIABLE, cleaned_up, given
from portal.management.commands.up import lock_home


class Command(BaseCommand):
    help = "Put a backup in the place of this installation, which must not run; --check only tells what is in it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", help="a backup, or - for standard input")
        parser.add_argument("--check", action="store_true", help="tell what is in it and whether it is whole")
        parser.add_argument("--replace", action="store_true", help="also where there are jobs: they are gone then")
        parser.add_argument(
            "--old-is-gone",
            action="store_true",
            help="the installation that was backed up runs nowhere any more. Until that is said, one that was restored "
            "elsewhere starts, stops and removes nothing; without a file it is said of the one that is here, also "
            "while it runs",
        )
        parser.add_argument("--passphrase-file", default="", help=f"else {VARIABLE}, else it is asked")

    def handle(self, *args: Any, **options: Any) -> None:
        source = options["file"]
        if source is None:
            self._say_gone(asked=options["old_is_gone"])
            return
        try:
            passphrase = given(options["passphrase_file"], new=False)
            said = _checked(source, passphrase) if options["check"] else self._restored(source, passphrase, options)
            for sentence in said:
                self.stdout.write(sentence)
        except BackupError as error:
            raise CommandError(str(error)) from error

    def _say_gone(self, *, asked: bool) -> None:
        if not asked:
            raise CommandError("Name the file of a backup.")
        try:
            waited = confirm_gone()
        except DatabaseError as error:
            raise CommandError(f"The database does not work: {str(error).strip()}") from error
        self.stdout.write("What was restored here goes on now." if waited else "Nothing here waits for that.")

    def _restored(self, source: str, passphrase: str, options: dict[str, Any]) -> Iterator[str]:
        if not passphrase:
            raise BackupError(f"Give the passphrase of the backup by --passphrase-file FILE or {VARIABLE}_FILE.")
        lock = lock_home()
        try:
            with cleaned_up():
                contents = restore(
                    source,
                    passphrase,
                    replace=options["replace"],
                    say=self.stdout.write,
                    old_is_gone=options["old_is_gone"],
                )
        finally:
            os.close(lock)
        yield f"Restored: {_contents(contents)}."
        yield from differences(contents)
        yield from missing_keys()
        if contents.files and settings.STORE_URL:
            yield (
                f"The files of users are in {local_root()}. Before the start bring them to where LONGSHORE_STORE_URL"
                f" says: manage.py move_files '{local_root()}' '{settings.STORE_URL}'"
            )
        if not contents.files and not settings.STORE_URL and not local_root().exists():
            yield "Files of users and logs of ended jobs are not in this backup; the store is empty."
        if held := predecessor.sentence():
            yield held
        yield "Sessions are over; passwords and tokens are those of the backup. Now start the portal."


def _checked(source: str, passphrase: str) -> Iterator[str]:
    contents = look(source, passphrase)
    name = "The backup" if source == "-" else source
    yield f"{name} is whole. Longshore {contents.head.says.get('release')} made it at {contents.made}."
    if not passphrase:
        yield "What is in it can be told with its passphrase."
        return
    yield f"From {contents.about['home']} with {_DATABASES[contents.about['database']]}: {_contents(contents)}."
    yield contents.newer or "This release can restore it."
    yield from differences(contents)


_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def _contents(kept: BackupContents) -> str:
    kinds = {"jobs_job": "job", "portal_user": "user", "clusters_node": "node"}
    rows = ", ".join(count(kept.rows.get(table, 0), word) for table, word in kinds.items())
    files = f"{count(kept.files, 'file')} of users ({size(kept.bytes)})" if kept.files else "no files of users"
    return f"{rows}, secrets, {files}"
