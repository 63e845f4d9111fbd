"""Uploads, makes, renames and deletes files, each with the rights of the user who asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.files.uploadedfile import UploadedFile

from base.core.errors import BadRequest, LongshoreError, NotFound
from base.files.store import rules
from base.files.store.base import BadPath, PathExists, PathNotFound, QuotaExceeded, StoreFull, TreeUsage, find
from base.files.store_actor import StoreActor, inside, parent


@dataclass(frozen=True, slots=True)
class Uploaded:
    done: Sequence[str]
    there: Sequence[str]  # not replaced, because that was not asked for
    full: LongshoreError | None = None  # why the next one, and all after it, had no room


def upload(who: StoreActor, folder: str, files: Iterable[UploadedFile[Any]], *, replace: bool) -> Uploaded:
    """Store uploaded files. Django has put each on the disk while it read the request; from there it goes to the store
    in pieces."""
    done, there = [], []
    for file in files:
        name = file.name or ""
        path = inside(folder, name)
        who.require_write(path)
        try:
            who.writes.write(path, file.chunks(), owner=who.owner_for(path), overwrite=replace, size=file.size)
            done.append(name)
        except PathExists:
            there.append(name)
        except (QuotaExceeded, StoreFull) as error:
            return Uploaded(done, there, error)
    if not done and not there:
        raise BadRequest("No file was chosen.")
    return Uploaded(done, there)


def existing(who: StoreActor, folder: str, names: Iterable[str]) -> list[str]:
    """Which of the names, or of the paths below the folder, exist already. One list for each folder."""
    known: dict[str, set[str]] = {}
    taken = []
    for name in names:
        path = inside(folder, name)
        who.require_write(path)
        above = parent(path)
        if above not in known:
            known[above] = _names_in(who, above)
        if path in known[above]:
            taken.append(name)
    return taken


def make_folder(who: StoreActor, folder: str, name: str) -> str:
    path = inside(folder, _plain(name))
    who.require_write(path)
    if find(who.store, path):
        raise PathExists(f"{path} exists already.")
    who.store.mkdirs(path, owner=who.owner_for(path))
    return path


def rename(who: StoreActor, path: str, to: str) -> str:
    """``to`` is a name, or a whole path. Returns the new path."""
    to = to.strip()
    target = rules.path_of(to) if to.startswith("/") else inside(parent(path), _plain(to))
    who.require_remove(path)
    who.require_write(target)
    if target == path:
        return path
    if target.startswith(f"{path}/"):
        raise BadRequest("A folder cannot be moved into itself.")
    try:
        who.writes.rename(path, target)
    except PathNotFound:
        if find(who.store, path):
            raise NotFound(f"There is no folder {parent(target)} to move it to.") from None
        raise
    return target


def delete(who: StoreActor, path: str) -> None:
    who.require_remove(path)
    who.writes.delete(path, recursive=True)


def usage(who: StoreActor, paths: Iterable[str]) -> TreeUsage:
    """Return what deleting these would remove."""
    size = files = folders = 0
    for path in paths:
        who.require_remove(path)
        below = who.store.usage(path)
        size, files, folders = size + below.size, files + below.files, folders + below.folders
    return TreeUsage(size, files, folders)


def _plain(name: str) -> str:
    name = name.strip()
    if not name or "/" in name:
        raise BadPath("A name has at least one character, and no slash.")
    return name


def _names_in(who: StoreActor, folder: str) -> set[str]:
    try:
        return {entry.path for entry in who.store.list(folder)}
    except (PathNotFound, BadPath):
        return set()
