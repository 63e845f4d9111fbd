"""``manage.py move_files FROM TO``: the files of users and jobs from one store to another (docs/run/stores.md)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from base.core.errors import LongshoreError
from base.core.words import count, size
from base.files import moving
from base.files.store import marker, store_at, try_write
from base.files.store.base import Store
from portal.backup.encryption import BackupError
from portal.backup.restore import require_still
from portal.management.commands.up import lock_home

_NONE = "none"
_EVERY = 5.0  # seconds between two lines of progress
_SHOWN = 20  # files that were not copied


class Command(BaseCommand):
    help = (
        "Copy the files of users and jobs from one store to another, and check them. Each is a folder, or what "
        "LONGSHORE_STORE_URL would say. May be killed and begun again. FROM 'none' gives up the files of before."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", metavar="FROM")
        parser.add_argument("target", metavar="TO")
        parser.add_argument("--ahead", action="store_true", help="only copy, while the portal runs; move them later")
        parser.add_argument("--replace", action="store_true", help="write over files of TO that are others than FROM's")

    def handle(self, *args: Any, **options: Any) -> None:
        lock = -1 if options["ahead"] else lock_home()
        try:
            if lock >= 0:
                require_still(self.stdout.write)
            self._move(
                _plain(options["source"]),
                _plain(options["target"]),
                ahead=options["ahead"],
                replaces=options["replace"],
            )
        except BackupError as error:
            raise CommandError(f"{error} Or copy ahead of it: --ahead.") from error
        except LongshoreError as error:
            raise CommandError(error.message) from error
        finally:
            if lock >= 0:
                os.close(lock)

    def _move(self, source: str, target: str, *, ahead: bool, replaces: bool) -> None:
        to = _opened("TO", target)
        try_write(to)
        if source == _NONE:
            marker.begin_anew()
            marker.know(marker.id_in(to) or marker.new(to), target)
            self.stdout.write(f"{target} is the file store from now on, as it is. {_what_to_set(target)}")
            return
        ends = moving.StorePair(_opened("FROM", source), to, source, target)
        id_of_store = moving.require_right(ends)
        moved = moving.copy(ends, replaces=replaces, tell=self._teller())
        self.stdout.write(
            f"{count(moved.files, 'file')} in {count(moved.folders, 'folder')}: {moved.copied:,} copied"
            f" ({size(moved.bytes)}), {moved.there:,} there already. Lengths and SHA-256 are the same."
        )
        if moved.failed:
            raise CommandError(_failures(moved, replaces=replaces))
        if ahead:
            self.stdout.write("Now stop the portal and run this without --ahead, with --replace for what has changed.")
            return
        moving.hand_over(ends, id_of_store)
        self.stdout.write(f"{target} is the file store now. {_what_to_set(target)} {source} is needed no more.")

    def _teller(self) -> Callable[[moving.Moved, str], None]:
        told = time.monotonic()

        def tell(moved: moving.Moved, folder: str) -> None:
            nonlocal told
            if time.monotonic() - told >= _EVERY:
                told = time.monotonic()
                self.stdout.write(f"{count(moved.files, 'file')}, {size(moved.bytes)} copied; now {folder}")
                self.stdout.flush()

        return tell


def _opened(which: str, place: str) -> Store:
    try:
        return store_at(place)
    except ValueError:
        raise CommandError(
            f"{which} is {place!r}. Give a folder by its whole path, webhdfs://namenode:9870 or s3://bucket/prefix."
        ) from None


def _plain(place: str) -> str:
    return str(Path(place)) if place.startswith("/") else place


def _what_to_set(target: str) -> str:
    if target.startswith("/"):
        return f"Unset LONGSHORE_STORE_URL, see that {target} is `store` in LONGSHORE_HOME, and start the portal."
    return f"Set LONGSHORE_STORE_URL={target} on every host, and start the portal."


def _failures(moved: moving.Moved, *, replaces: bool) -> str:
    shown = [f"{path}: {why}" for path, why in moved.failed[:_SHOWN]]
    more = [f"and {len(moved.failed) - _SHOWN:,} more"] * (len(moved.failed) > _SHOWN)
    hint = "" if replaces else " With --replace, files of TO that differ are written over."
    head = f"{count(len(moved.failed), 'file')} not copied, so the files stay where they are.{hint} Run this again."
    return "\n  ".join([head, *shown, *more])
