"""Recognizes the folder that is the portal's local store: the database has an id, and a file in the folder has the same
one.

A folder without it is an unmounted disk, or somebody else's. As the store it would look empty, and new files would be
written beside the missing ones; so nothing is read there, written or made.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from django.conf import settings

from portal.files.store.base import StoreUnavailable
from portal.files.store.local import MARKER as NAME
from portal.models import LocalFolder

_known: dict[Path, str] = {}


def expected(root: Path) -> str:
    """The id that the folder must have; "" when it has none yet. Asks the database once in a process."""
    if settings.STORE_ID is not None:
        return str(settings.STORE_ID)
    if root not in _known:
        _known[root] = LocalFolder.objects.filter(path=str(root)).values_list("marker", flat=True).first() or ""
    return _known[root]


def prepare(root: Path) -> None:
    """At the start: make the folder if it was never made. StoreUnavailable when it has lost its id."""
    row = LocalFolder.objects.filter(path=str(root)).first()
    if row is not None:
        if read(root) != row.marker:
            raise StoreUnavailable(_missing(root, row.marker))
        return
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = read(root) or uuid.uuid4().hex
    _write(root, marker)
    LocalFolder.objects.create(path=str(root), marker=marker)


def forget() -> None:
    """For tests: as in a process that has just started."""
    _known.clear()


def read(root: Path) -> str:
    try:
        return (root / NAME).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _missing(root: Path, marker: str) -> str:
    return (
        f"{root} is not the folder in which this portal keeps its files: there is no {NAME} with the right id. Is its"
        f" disk mounted? If what is there is to be the file store from now on, run: echo {marker} > {root / NAME}"
    )


def _write(root: Path, marker: str) -> None:
    """Write the id to the disk first, then to the database."""
    file = os.open(root / NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, f"{marker}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
