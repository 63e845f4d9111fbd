"""``manage.py restore FILE``: an installation as it was when the backup was made (docs/backup.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.backup.box import BackupError
from portal.backup.passphrase import VARIABLE, given
from portal.backup.restore import Contents, differences, look, restore
from portal.backup.settle import missing_keys
from portal.core.words import count, size
from portal.files.store import local_root
from portal.management.commands.backup import cleaned_up
from portal.management.commands.up import lock_home


class Command(BaseCommand):
    help = "Put a backup in the place of this installation, which must not run; --check only tells what is in it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="a backup, or - for standard input")
        parser.add_argument("--check", action="store_true", help="tell what is in it and whether it is whole")
        parser.add_argument("--replace", action="store_true", help="also where there are jobs: they are gone then")
        parser.add_argument("--passphrase-file", default="", help=f"else {VARIABLE}, else it is asked")

    def handle(self, *args: Any, **options: Any) -> None:
        source = options["file"]
        try:
            passphrase = given(options["passphrase_file"], new=False)
            said = _checked(source, passphrase) if options["check"] else self._restored(source, passphrase, options)
            for sentence in said:
                self.stdout.write(sentence)
        except BackupError as error:
            raise CommandError(str(error)) from error

    def _restored(self, source: str, passphrase: str, options: dict[str, Any]) -> Iterator[str]:
        if not passphrase:
            raise BackupError(f"Give the passphrase of the backup by --passphrase-file FILE or {VARIABLE}_FILE.")
        lock = lock_home()
        try:
            with cleaned_up():
                found = restore(source, passphrase, replace=options["replace"], say=self.stdout.write)
        finally:
            os.close(lock)
        yield f"Restored: {_contents(found)}."
        yield from differences(found)
        yield from missing_keys()
        if not found.files and not settings.STORE_URL and not local_root().exists():
            yield "Files of users and logs of ended jobs are not in this backup; the store is empty."
        yield "Sessions are over; passwords and tokens are those of the backup. Now start the portal."


def _checked(source: str, passphrase: str) -> Iterator[str]:
    found = look(source, passphrase)
    name = "The backup" if source == "-" else source
    yield f"{name} is whole. Longshore {found.head.says.get('release')} made it at {found.made}."
    if not passphrase:
        yield "What is in it can be told with its passphrase."
        return
    yield f"From {found.about['home']} with {_DATABASES[found.about['database']]}: {_contents(found)}."
    yield found.newer or "This release can restore it."
    yield from differences(found)


_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def _contents(found: Contents) -> str:
    kinds = {"jobs_job": "job", "portal_user": "user", "clusters_node": "node"}
    rows = ", ".join(count(found.rows.get(table, 0), word) for table, word in kinds.items())
    files = f"{count(found.files, 'file')} of users ({size(found.bytes)})" if found.files else "no files of users"
    return f"{rows}, secrets, {files}"
