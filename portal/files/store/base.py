"""What Longshore asks of a file store: its operations, their values and their errors.

Pure. Paths are absolute and in POSIX form (``/Container/mira/...``); ``.`` and ``..`` are no names. A write is seen
whole or not at all, also by readers that have the older file open. Owners are names of users of the portal; who may
do what is not the store's business (see portal.files.store.rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from portal.core.errors import BadRequest, Conflict, Forbidden, LongshoreError, NotFound

PART = ".longshore-part"  # ending of a file being written; never listed, never readable by name
PARTS = f"/{PART}"  # the folder of all of them: what a killed writer left is found in one look
PART_AGE = 6 * 3600.0  # seconds nothing was added to a part until it counts as left behind
_LONGEST_NAME = 255  # bytes


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
class Usage:
    """What is in a folder and all below it, the folder itself counted; of a file, the file."""

    size: int  # bytes
    files: int
    folders: int


def names_of(path: str) -> list[str]:
    """The parts of a path. Raises BadPath for what is no path of a store."""
    names = [name for name in path.split("/") if name]
    bad = any(name in (".", "..") or name.endswith(PART) or len(_bytes(name)) > _LONGEST_NAME for name in names)
    if bad or not path.startswith("/") or "\0" in path:
        raise BadPath(f"{path!r} is no path inside the store.")
    return names


def _bytes(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise BadPath("A name in the store is text.") from None


class Writing(Protocol):
    """A file that is being written. Each call may come from another thread, one after the other; a writer who is waited
    for holds none. It ends with ``keep`` or ``drop``."""

    def add(self, piece: bytes) -> None: ...

    def keep(self) -> int:
        """The file has its name and all that was added; its size."""
        ...

    def drop(self) -> None:
        """Nothing of it stays, but what was appended to a file that was there. After ``keep`` it does nothing."""
        ...


def fill(writing: Writing, chunks: Iterable[bytes]) -> int:
    """All of the chunks, and the size; nothing when they raise."""
    try:
        for chunk in chunks:
            writing.add(chunk)
        return writing.keep()
    finally:
        writing.drop()


class Store(Protocol):
    """Every method may be called from several threads and raises only the errors above, and ``write`` what its
    ``chunks`` raise."""

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        """The file from byte ``offset`` on; beyond its end it reads as empty. The caller closes it. ``known``: what it
        was when the caller looked just now, which saves looking again."""
        ...

    def write(
        self, path: str, chunks: Iterable[bytes], *, owner: str = "", mode: int = 0o644, overwrite: bool = True
    ) -> int:
        """Replace the file by ``chunks`` at once, make missing folders, return its size. When ``chunks`` raises,
        nothing is changed. Without ``overwrite`` PathExists when there is one, also when somebody was quicker.
        ``owner`` is given the file and the folders that were missing; empty leaves them the portal's."""
        ...

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        """``write`` for who has not all chunks at hand."""
        ...

    def append(self, path: str, chunks: Iterable[bytes]) -> int:
        """Add to the file's end and return its new size. What arrived before a failure stays. PathNotFound."""
        ...

    def begin_append(self, path: str) -> Writing:
        """``append`` for who has not all chunks at hand."""
        ...

    def truncate(self, path: str, size: int) -> None:
        """Cut the file to its first ``size`` bytes. BadRequest when it is shorter."""
        ...

    def concat(self, path: str, sources: Sequence[str]) -> None:
        """Move the contents of ``sources``, in order, to the end of the file; they are gone then."""
        ...

    def mkdirs(self, path: str, *, owner: str = "", mode: int = 0o755) -> None:
        """Make the folder and those above it; already there is success and changes nothing. What is made gets
        ``owner`` and ``mode``."""
        ...

    def change(self, path: str, *, owner: str | None = None, mode: int | None = None) -> None:
        """Set owner and mode of what is there."""
        ...

    def usage(self, path: str) -> Usage:
        """Sum over all below ``path``."""
        ...

    def list(self, path: str) -> list[Entry]:
        """What is in the folder, by name."""
        ...

    def stat(self, path: str) -> Entry: ...

    def rename(self, source: str, target: str) -> None:
        """Raises PathExists when ``target`` is there; its folder must exist."""
        ...

    def sweep(self, age: float = PART_AGE) -> int:
        """Delete what killed writers left behind: parts to which nothing was added for ``age`` seconds and which nobody
        has open. How many there were."""
        ...

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Gone is success. A folder that is not empty wants ``recursive``, else PathExists."""
        ...


def find(store: Store, path: str) -> Entry | None:
    """What is there; None when nothing is, also where nothing can be (below a file). Raises StoreUnavailable."""
    try:
        return store.stat(path)
    except (PathNotFound, BadPath):
        return None
