"""Recognizes the portal's file store: the database has an id, and the store has the same one, a folder in a file in its
root, HDFS and S3 in a file that only admins see.

A folder without it is an unmounted disk, or somebody else's; an HDFS or a bucket without it is one to which the files
were not moved. As the store it would look empty, and new files would be written beside the missing ones. So the portal
does not start with it, and in such a folder nothing is read, written or made.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from base.files.store.base import PathExists, PathNotFound, Store, StoreUnavailable
from base.files.store.local import MARKER, LocalStore
from base.files.store.rules import PORTAL
from base.models import LocalFolder, Shared

REMOTE = f"/{PORTAL}/store-id"  # in a store that is no folder
_ROW = "file store"  # the name of a row of Shared
_LONGEST = 64  # bytes of an id, if it is one
_known: dict[Path, str] = {}
_recognized: set[str] = set()


class NotTheStore(StoreUnavailable):
    """The store answers, and is not the one that has the files which the database knows."""


@dataclass(frozen=True, slots=True)
class KnownStore:
    """The store that has the portal's files: its id, and where it was when the database learnt of it."""

    id: str
    place: str


def known(place: str) -> KnownStore | None:
    """What the database says; None before the first start. ``place``: the store that is asked about, since releases
    before this one knew the id of each folder and no other."""
    if row := Shared.objects.filter(name=_ROW).first():
        return KnownStore(**json.loads(row.value))
    folder = LocalFolder.objects.filter(path=place).first()
    return KnownStore(folder.marker, place) if folder else None


def know(marker: str, place: str) -> None:
    """From now on the store with this id has the portal's files."""
    value = json.dumps(asdict(KnownStore(marker, place)))
    Shared.objects.update_or_create(name=_ROW, defaults={"value": value})
    forget()


def begin_anew() -> None:
    """The database knows no store: the one with which the portal is started next is its own."""
    Shared.objects.filter(name=_ROW).delete()
    LocalFolder.objects.all().delete()
    forget()


def expected(root: Path) -> str:
    """The id that the folder must have; "" when it has none yet. Asks the database once in a process."""
    if settings.STORE_ID is not None:
        return str(settings.STORE_ID)
    if root not in _known:
        there = known(str(root))
        _known[root] = there.id if there else ""
    return _known[root]


def prepare(root: Path) -> None:
    """At the start: make the folder if it was never made. NotTheStore when it has another id than the database."""
    if there := known(str(root)):
        _compare(there, read(root), str(root))
    else:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = read(root) or new(LocalStore(root))
    # Releases before this one look there; they may come back.
    LocalFolder.objects.update_or_create(path=str(root), defaults={"marker": marker})
    know(marker, str(root))


def require(root: Path) -> None:
    """StoreUnavailable when the folder is not there, or has not the id that the database knows. Makes nothing."""
    if not root.is_dir():
        raise NotTheStore(f"{root} is not there. Is its disk mounted, and is LONGSHORE_HOME the portal's?")
    if settings.STORE_ID is None and (there := known(str(root))):
        _compare(there, read(root), str(root))


def recognize(store: Store, place: str) -> None:
    """Do the same as ``prepare`` with a store that is no folder. Once it was the right one, a process asks no more.
    NotTheStore, and StoreUnavailable when it does not answer."""
    if settings.STORE_ID is not None or place in _recognized:
        return
    there, id = known(place), id_in(store)
    if there:
        _compare(there, id, place)
        _recognized.add(place)
        return
    know(id or new(store), place)


def id_in(store: Store) -> str:
    """The id that a store has; empty when it has none."""
    if isinstance(store, LocalStore):
        return read(store.root)
    try:
        with store.open_read(REMOTE) as file:
            return file.read(_LONGEST).decode(errors="replace").strip()
    except PathNotFound:
        return ""


def new(store: Store) -> str:
    """Give an id to a store that has none; returns the one that it has then."""
    marker = uuid.uuid4().hex
    try:
        give(store, marker, overwrite=False)
    except PathExists:  # another host was faster
        return id_in(store)
    return marker


def give(store: Store, marker: str, *, overwrite: bool = True) -> None:
    """Write the id into a store."""
    if isinstance(store, LocalStore):
        _write(store.root, marker)
    else:
        store.write(REMOTE, [f"{marker}\n".encode()], mode=0o600, overwrite=overwrite)


def take(store: Store) -> None:
    """Remove the id from a store that has given its files away."""
    if isinstance(store, LocalStore):
        (store.root / MARKER).unlink(missing_ok=True)
    else:
        store.delete(REMOTE)


def forget() -> None:
    """Know nothing more, as in a process that has just started."""
    _known.clear()
    _recognized.clear()


def read(root: Path) -> str:
    try:
        return (root / MARKER).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _compare(there: KnownStore, id: str, place: str) -> None:
    if id == there.id:
        return
    if there.place != place:
        raise NotTheStore(
            f"The database knows files that {place} has not: they were at {there.place}. Move them: manage.py "
            f"move_files '{there.place}' '{place}'. If they are given up: manage.py move_files none '{place}'"
        )
    at = f"{place}/{MARKER}" if place.startswith("/") else f"{REMOTE} at {place}"
    accept = f"run: echo {there.id} > {at}" if place.startswith("/") else f"run: manage.py move_files none '{place}'"
    raise NotTheStore(
        f"{place} is not the store in which this portal keeps its files: there is no {at} with the right id. Is its"
        f" disk mounted, is its address right? If what is there is to be the file store from now on, {accept}"
    )


def _write(root: Path, marker: str) -> None:
    """Write the id to the disk first, then to the database."""
    file = os.open(root / MARKER, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, f"{marker}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
