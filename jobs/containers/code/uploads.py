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
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog
from django.conf import settings
from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from base.core.errors import LongshoreError
from base.files.store import open_store
from base.files.store.base import Entry, PathExists, PathNotFound, Store, StoreUnavailable, find
from jobs import queries
from jobs.models import Job, Template

AGE = timedelta(days=1)  # of an upload that no command is at any more
MOST = 1000  # folders that are looked at in one time: each may be read once
LARGEST_LIST = 32 << 20  # bytes
_PIECE = 1 << 20
_PART = ".pai-fs-part"  # how the command's unfinished files end (client/pai_fs/places.py)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Listed:
    """What was uploaded, by paths below the folder; of a file its length and the SHA-1 of its content."""

    folders: frozenset[str]
    files: dict[str, tuple[int, str]]

    @classmethod
    def of(cls, text: bytes) -> _Listed | None:
        """None for what is no such list."""
        try:
            told = json.loads(text)
            files = {str(name): (int(size), str(sha1)) for name, (size, sha1) in told["files"].items()}
            return cls(frozenset(map(str, told["folders"])), files)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def is_part(self, name: str) -> bool:
        """Whether it is a file of ours that did not arrive as a whole."""
        whole = (each.rpartition("/") for each in self.files)
        return name.endswith(_PART) and any(name.startswith(f"{at}{slash}.{base[:40]}.") for at, slash, base in whole)


def clean_up() -> None:
    """Remove old uploads of which no job came, or whose jobs are gone. Stops when the store is down: the next time goes
    on."""
    store, before = open_store(), timezone.now() - AGE
    try:
        due = [each for user in _entries(store, "/users") for each in _without_job(store, user.name, before)]
        for username, name in random.sample(due, min(MOST, len(due))):  # by chance: those that stay hold up no other
            try:
                remove(store, username, name, before)
            except StoreUnavailable:
                raise
            except LongshoreError as error:
                log.warning("what was uploaded stays", user=username, folder=name, reason=error.message)
    except StoreUnavailable as error:
        log.info("what was uploaded is removed later", reason=error.message)


def remove(store: Store, username: str, name: str, before: datetime) -> None:
    """Remove the upload of this name if it began before this moment and nobody names it."""
    entry = find(store, f"{_lists(username)}/{name}")
    if entry is None or entry.is_dir or entry.modified_at >= before or _is_named(username, name):
        return
    root, listed = f"/users/{username}/code/{name}", _read(store, entry)
    there = [] if listed is None else _tree(store, root, most=2 * len(listed.files) + len(listed.folders))
    if listed is not None and _is_as_it_came(store, root, there, listed):
        for each in reversed(there):
            with suppress(PathExists):  # something came into the folder just now, and stays
                store.delete(each.path)
        with suppress(PathExists):
            store.delete(root)
    store.delete(entry.path)


def _lists(username: str) -> str:
    return f"/users/{username}/code/.longshore"


def _without_job(store: Store, username: str, before: datetime) -> list[tuple[str, str]]:
    """(user, name) of old uploads that have no job of their name."""
    old = {entry.name for entry in _entries(store, _lists(username)) if entry.modified_at < before}
    jobs = Job.objects.filter(username=username).values_list("name", flat=True) if old else ()
    return [(username, name) for name in sorted(old.difference(jobs))]


def _is_named(username: str, name: str) -> bool:
    """Whether a job of theirs, anybody's live one or a template says this folder: also where it is cloned, of another
    name, or reads it by its command."""
    jobs = Job.objects.annotate(text=Cast("spec", TextField()))
    of = Q(username=username) | Q(state__in=queries.LIVE)
    for says in (f"/code/{name}/", f'/code/{name}"'):
        if jobs.filter(of, text__contains=says).exists() or Template.objects.filter(config__contains=says).exists():
            return True
    return False


def _is_as_it_came(store: Store, root: str, there: list[Entry], listed: _Listed) -> bool:
    """Whether all that is there was uploaded and is as it was then; some of it may be missing."""
    files: list[tuple[Entry, str]] = []
    for entry in there:
        name = entry.path.removeprefix(f"{root}/")
        size, sha1 = listed.files.get(name, (-1, ""))
        if not (name in listed.folders if entry.is_dir else size == entry.size or listed.is_part(name)):
            return False
        if size == entry.size:
            files.append((entry, sha1))
    is_little = sum(entry.size for entry, _ in files) <= settings.CODE_LIMIT  # else it is not read
    return is_little and all(_sha1(store, entry) == sha1 for entry, sha1 in files)


def _tree(store: Store, root: str, most: int) -> list[Entry]:
    """What is below a folder, each folder before what is in it. With more than ``most`` it is not gone through to its
    end: it is not what was uploaded."""
    there: list[Entry] = []
    folders = [root]
    while folders and len(there) <= most:
        found = _entries(store, folders.pop())
        there += found
        folders += [entry.path for entry in found if entry.is_dir]
    return there


def _entries(store: Store, folder: str) -> list[Entry]:
    try:
        return store.list(folder)
    except PathNotFound:
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
