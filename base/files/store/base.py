"""What Longshore asks of a file store: operations, values, errors. Pure.

Paths are absolute and in POSIX form (``/Container/mira/...``); ``.`` and ``..`` are no names. Readers see a write whole
or not at all, also those that have the older file open. Owners are names of users of the portal; who may do what is not
the store's business (see base.files.store.rules).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import BinaryIO, Protocol

from base.core.errors import BadRequest, Conflict, Forbidden, LongshoreError, NotFound

PART = ".longshore-part"  # ending of a file being written; never listed, never readable by name
PARTS = f"/{PART}"  # the folder of all of them, so that one list finds what killed writers left
PART_AGE = 6 * 3600.0  # seconds without an addition after which a part counts as left behind
_LONGEST_NAME = 255  # bytes
_BLOCK = 1 << 20
Pick = Callable[[Sequence[str]], Sequence[str]]


class BadPath(BadRequest):
    """This is no path inside the store."""


class PathNotFound(NotFound):
    """There is no such file or folder."""


class PathExists(Conflict):
    """There is something of that name already."""


class QuotaExceeded(Forbidden):
    """The files of a user would take more of the store than they may."""

    code = "StoreQuotaError"


class StoreUnavailable(LongshoreError):
    """The file store cannot be reached or has no room left."""

    code, status = "StoreUnavailableError", 503


class StoreFull(StoreUnavailable):
    """The disks of the store, or a quota that it has itself, have no room: it does not help to ask again at once."""

    code, status = "StoreFullError", 507


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder. ``path`` is absolute in the store; ``size`` is in bytes, 0 for a folder; ``mode`` has the
    permission bits only."""

    path: str
    is_dir: bool
    size: int
    modified_at: datetime
    owner: str = ""
    group: str = ""
    mode: int = 0o644

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """What is in a folder and all below it, the folder itself counted; of a file, the file."""

    size: int  # bytes
    files: int
    folders: int


def joined(names: Iterable[str]) -> str:
    """The path of these names."""
    return "/" + "/".join(names)


def names_of(path: str) -> list[str]:
    """The names in a path. Raises BadPath for what is no path of a store."""
    names = [name for name in path.split("/") if name]
    bad = "." in names or ".." in names or not path.startswith("/") or "\0" in path
    # It is asked some times for each file of a large folder, and nearly no path is long, other than ASCII or a part.
    if not bad and (PART in path or len(path) > _LONGEST_NAME or not path.isascii()):
        bad = any(name.endswith(PART) or len(_bytes(name)) > _LONGEST_NAME for name in names)
    if bad:
        raise BadPath(f"{path!r} is no path inside the store.")
    return names


def _bytes(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise BadPath("A name in the store is text.") from None


class Writing(Protocol):
    """A file that is being written. Each call may come from another thread, one after the other; no thread is held
    between two calls. It ends with ``keep`` or ``drop``."""

    def add(self, piece: bytes) -> None: ...

    def keep(self) -> int:
        """Give the file its name, with all that was added. Returns its size."""

    def drop(self) -> None:
        """Remove it all, except what was appended to an existing file. After ``keep`` it does nothing."""


def fill(writing: Writing, chunks: Iterable[bytes]) -> int:
    """Write all of the chunks and return the size. When ``chunks`` raises, nothing is written."""
    try:
        for chunk in chunks:
            writing.add(chunk)
        return writing.keep()
    finally:
        writing.drop()


class Store(Protocol):
    """Stores inherit what follows from their other methods. Every method may be called from several threads. It raises
    only the errors above; ``write`` also raises what its ``chunks`` raise."""

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        """The file from byte ``offset`` on; beyond its end it reads as empty. ``read`` gives all that it is asked for,
        less only at the end. The caller closes it. ``known``: the entry, if the caller has just looked, which saves
        looking again."""

    def read_each(self, entries: Sequence[Entry]) -> builtins.list[bytes]:
        """The contents of these small files, which the caller has just listed. Of one that has become shorter since
        comes what is left, or StoreUnavailable."""
        contents = []
        for entry in entries:
            with closing(self.open_read(entry.path, known=entry)) as file:
                contents.append(file.read(entry.size))
        return contents

    def write(
        self, path: str, chunks: Iterable[bytes], *, owner: str = "", mode: int = 0o644, overwrite: bool = True
    ) -> int:
        """Replace the file by ``chunks`` at once, make missing folders, return its size. When ``chunks`` raises,
        nothing is changed. Without ``overwrite`` PathExists when there is a file, also when another writer was faster.
        ``owner`` gets the file and the folders that were missing; if empty they are the portal's."""
        return fill(self.begin(path, owner=owner, mode=mode, overwrite=overwrite), chunks)

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        """``write`` for callers that get the chunks one by one."""

    def append(self, path: str, chunks: Iterable[bytes]) -> int:
        """Add to the file's end and return its new size. What arrived before a failure may stay. PathNotFound."""
        return fill(self.begin_append(path), chunks)

    def begin_append(self, path: str) -> Writing:
        """``append`` for callers that get the chunks one by one."""

    def truncate(self, path: str, size: int) -> None:
        """Cut the file to its first ``size`` bytes. BadRequest when it is shorter."""

    def concat(self, path: str, sources: Sequence[str]) -> None:
        """Move the contents of ``sources``, in order, to the end of the file, and delete the sources."""
        require_distinct(path, sources)
        for source in sources:
            if self.stat(source).is_dir:
                raise BadPath(f"{source} is a folder.")
        for source in sources:
            with closing(self.open_read(source)) as file:
                self.append(path, iter(partial(file.read, _BLOCK), b""))
            self.delete(source)

    def mkdirs(self, path: str, *, owner: str = "", mode: int = 0o755) -> None:
        """Make the folder and those above it; success without a change when it exists. What is made gets ``owner`` and
        ``mode``."""

    def change(
        self, path: str, *, owner: str | None = None, mode: int | None = None, modified_at: datetime | None = None
    ) -> None:
        """Set owner, mode and time of a file or folder. A store that cannot set times leaves them."""

    def usage(self, path: str) -> TreeUsage:
        """Return the sum over all below ``path``."""

    def list(self, path: str, pick: Pick | None = None) -> builtins.list[Entry]:
        """What is in the folder, by name. Its owners, modes and folders' times may be the usual ones: see ``exact``.
        ``pick`` chooses among the sorted names, so that a store with cheap names looks at the chosen files only."""

    def exact(self, entries: Sequence[Entry]) -> builtins.list[Entry]:
        """The entries of a list with owner, mode and time as ``stat`` tells them: not every store has these in a
        list."""
        return [*entries]

    def stat(self, path: str) -> Entry: ...

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Raises PathExists when ``target`` is there; its folder must exist. With ``overwrite`` a file takes the place
        of a file, and a folder that of an empty one, in one step."""

    def clean_up(self, age: float = PART_AGE) -> int:
        """Delete parts that killed writers left behind: nothing was added to them for ``age`` seconds and nobody has
        them open. Returns how many there were."""

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete it; success also when it does not exist. A folder that is not empty needs ``recursive``, else
        PathExists."""


def require_distinct(path: str, sources: Sequence[str]) -> None:
    """BadPath unless these are different files, which can be joined."""
    files = {tuple(names_of(each)) for each in (path, *sources)}
    if len(files) <= len(sources):
        raise BadPath(f"{path} cannot be joined to itself, and each file only once.")


def picked(entries: list[Entry], pick: Pick | None) -> list[Entry]:
    """The entries of a folder that ``pick`` chooses."""
    if pick is None:
        return entries
    names = set(pick([entry.name for entry in entries]))
    return [entry for entry in entries if entry.name in names]


def find(store: Store, path: str) -> Entry | None:
    """The entry at a path; None when there is none, also where there can be none (below a file). Raises
    StoreUnavailable."""
    try:
        return store.stat(path)
    except (PathNotFound, BadPath):
        return None
