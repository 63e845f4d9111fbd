"""Says of the folders that a config names whether they are there, for its author to read before they submit.

It reads the store with the user's rights and for a part of a second only, as somebody who types asks again and again:
of a folder with very many files it says what it has counted by then.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from base.core import words
from base.core.clock import deadline
from base.core.errors import LongshoreError
from base.files.store import open_store, rules
from base.files.store.base import Entry, StoreUnavailable, find
from base.files.store_actor import StoreActor
from base.models import User
from jobs.config.spec import JobSpec, substitute_paths

PATIENCE = 0.3  # seconds for counting
MOST = 5_000  # files that are counted


@dataclass(frozen=True, slots=True)
class FolderNote:
    """What is known of one field. ``path`` is its place in the config; ``kind`` is ``yes``, ``warn``, ``no`` or, where
    it is neither good nor bad, empty."""

    path: str
    name: str
    says: str
    kind: str = "yes"


def notes(spec: JobSpec, user: User) -> list[FolderNote]:
    """What is known of those folders that the config names and that are in the store."""
    if not (spec.code_dir or spec.data_dir or spec.output_dir):
        return []
    paths = substitute_paths(spec, fs_uri=settings.DEFAULT_FS_URI, username=user.username)
    try:
        who = StoreActor.of(user, open_store())
        asked = {"codeDir": spec.code_dir, "dataDir": spec.data_dir, "outputDir": spec.output_dir}
        looked = ((name, _look(who, paths[name])) for name, folder in asked.items() if folder)
        return [_note(who, name, entry) for name, entry in looked if entry is not None]
    except StoreUnavailable:
        return [FolderNote("", "Folders", "The store cannot be reached now, so nobody looked.", "warn")]


def _note(who: StoreActor, name: str, entry: Entry | str) -> FolderNote:
    """``entry``: what is there, or why nothing is."""
    path = f"/{name}"
    if name == "codeDir":
        says, kind = (entry, "no") if isinstance(entry, str) else _counted(who, entry)
        return FolderNote(path, "Code folder", says, kind)
    if name == "dataDir":
        if isinstance(entry, str):
            return FolderNote(path, "Data folder", entry, "warn")
        return FolderNote(path, "Data folder", "found" if entry.is_dir else f"a file, {words.size(entry.size)}")
    if isinstance(entry, str):
        return FolderNote(path, "Output folder", "is not there yet", "")
    return FolderNote(path, "Output folder", "found" if entry.is_dir else "a file has this name")


def _counted(who: StoreActor, entry: Entry) -> tuple[str, str]:
    files, size, is_all = _count(who, entry) if entry.is_dir else (1, entry.size, True)
    if size > settings.CODE_LIMIT:
        return f"larger than {words.size(settings.CODE_LIMIT)}, the most that a job takes along", "no"
    if not files:
        return "found, but there is no file in it", "warn"
    says = f"{words.count(files, 'file')}, {words.size(size)}"
    return f"found, {says}" if is_all else f"found, more than {says}", "yes"


def _look(who: StoreActor, uri: str) -> Entry | str | None:
    """What is there, or why nothing is. None for a text that names no path of the store."""
    if "$" in uri or not ("://" in uri or uri.startswith("/")):
        return None
    try:
        path, without_host = rules.path_of(uri), rules.hostless_path_of(uri)
        who.require_read(path)
        entry = find(who.store, path)
        if entry is None and without_host:
            who.require_read(without_host)
            entry = find(who.store, without_host)
    except StoreUnavailable:
        raise
    except LongshoreError:
        return "There is no such folder that you may read."
    return entry or "There is no such folder."


def _count(who: StoreActor, root: Entry) -> tuple[int, int, bool]:
    """Files and bytes below a folder, and whether these are all."""
    files, size, folders, is_over = 0, 0, [root.path], deadline(PATIENCE)
    while folders and files < MOST and size <= settings.CODE_LIMIT and not is_over():
        for entry in who.entries(folders.pop()):
            if entry.is_dir:
                folders.append(entry.path)
            else:
                files, size = files + 1, size + entry.size
    return files, size, not folders
