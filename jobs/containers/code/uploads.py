"""What ``longshore run`` uploaded goes when no job needs it any more.

The command puts a folder to ``/users/<user>/code/<job>``, and before it a list of what it uploads, with lengths and
SHA-1s, to ``/users/<user>/code/.longshore/<job>`` (client/running.py). A folder without a list is none of ours. One
that no job and no template names is removed when its job is purged, or, where no job came of it, a day after it began.

Nothing that somebody put or changed there is removed: where a file is not in the list, or not as the list says, all
stays, and the list goes, so that the folder is the user's own from then on. The list is the user's file too, so all
that is believed of it is which of the files below this one folder may go. Every step may be done twice.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Lock

import structlog
from django.conf import settings
from django.utils import timezone

from base.core.errors import LongshoreError
from base.files.store import open_store
from base.files.store.base import BadPath, Entry, PathExists, PathNotFound, Store, StoreUnavailable, find
from jobs.containers.code.named import CAN_BE_NAMED, NamedFolders
from jobs.models import Job

AGE = timedelta(days=1)  # of an upload that no command is at any more
MOST = 1000  # folders that are looked at in one time: each may be read once
LARGEST_LIST = 8 << 20  # bytes; read, it takes twenty times as many
_PIECE = 1 << 20
_PART = ".pai-fs-part"  # how the command's unfinished files end (client/pai_fs/places.py)
_cleaning = Lock()

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Listed:
    """What was uploaded, by paths below the folder; of a file its length and the SHA-1 of its content. ``parts``: how
    the names of those files begin that did not arrive as a whole."""

    folders: frozenset[str]
    files: dict[str, tuple[int, str]]
    parts: frozenset[str]

    @classmethod
    def of(cls, text: bytes) -> _Listed | None:
        """None for what is no such list."""
        try:
            told = json.loads(text)
            files = {str(name): (int(size), str(sha1)) for name, (size, sha1) in told["files"].items()}
            whole = (name.rpartition("/") for name in files)
            parts = frozenset(f"{at}{slash}.{base[:40]}." for at, slash, base in whole)
            return cls(frozenset(map(str, told["folders"])), files, parts)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None

    def is_part(self, name: str) -> bool:
        """Whether it is a file of ours that did not arrive as a whole."""
        return name.endswith(_PART) and any(name[: at + 1] in self.parts for at, c in enumerate(name) if c == ".")


def clean_up() -> None:
    """Remove old uploads of which no job came, or whose jobs are gone. Stops when the store is down: the next time goes
    on. While one is at it another does nothing."""
    if not _cleaning.acquire(blocking=False):
        return
    try:
        store, before = open_store(), timezone.now() - AGE
        due = [each for user in _entries(store, "/users") for each in _without_job(store, user.name, before)]
        named = NamedFolders(due)
        due = named.left()
        for username, name in random.sample(due, min(MOST, len(due))):  # by chance: those that stay hold up no other
            remove(store, username, name, before, named)
    except StoreUnavailable as error:
        log.info("what was uploaded is removed later", reason=error.message)
    finally:
        _cleaning.release()


def listed_among(store: Store, names: Collection[tuple[str, str]]) -> NamedFolders:
    """Which of these folders, each (user, name), somebody names: only those with a list of what was uploaded count."""
    return NamedFolders([each for each in names if find(store, _list_of(*each)) is not None])


def remove(store: Store, username: str, name: str, before: datetime, named: NamedFolders) -> None:
    """Remove the upload of this name if it began before this moment and nobody names it. Raises StoreUnavailable."""
    try:
        _remove(store, username, name, before, named)
    except StoreUnavailable:
        raise
    except LongshoreError as error:
        log.warning("what was uploaded stays", user=username, folder=name, reason=error.message)


def _remove(store: Store, username: str, name: str, before: datetime, named: NamedFolders) -> None:
    entry = find(store, _list_of(username, name))
    if entry is None or entry.is_dir or entry.modified_at >= before or named.had(username, name):
        return
    root, listed = f"/users/{username}/code/{name}", _read(store, entry)
    there = None if listed is None else _as_it_came(store, root, listed)
    if named.has(username, name):  # by now: reading all of it may have taken long
        return
    for each in reversed(there or ()):
        if not _is_same(store, each):
            break  # somebody is at it just now: it stays, and what is left beside it
        with suppress(PathExists):  # something came into the folder just now, and stays
            store.delete(each.path)
    if _is_same(store, entry):
        store.delete(entry.path)


def _list_of(username: str, name: str) -> str:
    return f"{_lists(username)}/{name}"


def _lists(username: str) -> str:
    return f"/users/{username}/code/.longshore"


def _without_job(store: Store, username: str, before: datetime) -> list[tuple[str, str]]:
    """(user, name) of old uploads that have no job of their name."""
    found = _entries(store, _lists(username))
    old = {entry.name for entry in found if entry.modified_at < before and CAN_BE_NAMED(entry.name)}
    jobs = Job.objects.filter(username=username).values_list("name", flat=True) if old else ()
    return [(username, name) for name in sorted(old.difference(jobs))]


def _as_it_came(store: Store, root: str, listed: _Listed) -> list[Entry] | None:
    """What is there, the folder itself first, if all of it was uploaded and is as it was then; some may be missing.
    Else None."""
    files: list[tuple[Entry, str]] = []
    try:
        there = _tree(store, root, most=2 * len(listed.files) + len(listed.folders))
        for entry in there[1:]:
            name = entry.path.removeprefix(f"{root}/")
            size, sha1 = listed.files.get(name, (-1, ""))
            if not (name in listed.folders if entry.is_dir else size == entry.size or listed.is_part(name)):
                return None
            if size == entry.size and not entry.is_dir:
                files.append((entry, sha1))
        is_little = sum(entry.size for entry, _ in files) <= settings.CODE_LIMIT  # else it is not read
        return there if is_little and all(_sha1(store, entry) == sha1 for entry, sha1 in files) else None
    except BadPath:  # a file where the folder was, or what no command uploads
        return None


def _tree(store: Store, root: str, most: int) -> list[Entry]:
    """A folder and what is below it, each folder before what is in it. With more than ``most`` it is not gone through
    to its end: it is not what was uploaded. Raises BadPath where it is a file."""
    if (found := find(store, root)) is None:
        return []
    there, folders = [found], [root]
    while folders and len(there) <= most + 1:
        inside = store.list(folders.pop())
        there += inside
        folders += [entry.path for entry in inside if entry.is_dir]
    return there


def _is_same(store: Store, entry: Entry) -> bool:
    """Whether it is still what it was. To whole seconds: not every store tells more each time."""
    now = find(store, entry.path)
    if now is None or now.is_dir or entry.is_dir:
        return now is None or now.is_dir == entry.is_dir
    return (now.size, int(now.modified_at.timestamp())) == (entry.size, int(entry.modified_at.timestamp()))


def _entries(store: Store, folder: str) -> list[Entry]:
    """What is in a folder; nothing where there is none, also where a file has its name."""
    try:
        return store.list(folder)
    except (PathNotFound, BadPath):
        return []


def _read(store: Store, entry: Entry) -> _Listed | None:
    if entry.size > LARGEST_LIST:
        return None
    with closing(store.open_read(entry.path, known=entry)) as file:
        return _Listed.of(file.read(LARGEST_LIST))


def _sha1(store: Store, entry: Entry) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    with closing(store.open_read(entry.path, known=entry)) as file:
        for piece in iter(partial(file.read, _PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()
