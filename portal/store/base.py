"""What Longshore asks of a file store: seven operations, their values and their errors.

Pure. Paths are absolute and in POSIX form (``/Container/mira/...``); ``.`` and ``..`` are no names. A write is seen
whole or not at all, also by readers that have the older file open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from portal.errors import BadRequest, Conflict, LongshoreError, NotFound


class BadPath(BadRequest):
    """This is no path inside the store."""


class PathNotFound(NotFound):
    """There is no such file or folder."""


class PathExists(Conflict):
    """There is something of that name already."""


class StoreUnavailable(LongshoreError):
    """The file store cannot be reached or has no room left."""

    code, status = "StoreUnavailableError", 503


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder. ``path`` is absolute in the store; ``size`` is in bytes, 0 for a folder."""

    path: str
    is_dir: bool
    size: int
    modified_at: datetime

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class Store(Protocol):
    """Every method may be called from several threads and raises only the errors above, and ``write`` what its
    ``chunks`` raise."""

    def open_read(self, path: str, offset: int = 0) -> BinaryIO:
        """The file from byte ``offset`` on; beyond its end it reads as empty. The caller closes it."""
        ...

    def write(self, path: str, chunks: Iterable[bytes]) -> int:
        """Replace the file by ``chunks`` at once, make missing folders, return its size. When ``chunks`` raises,
        nothing is changed."""
        ...

    def mkdirs(self, path: str) -> None:
        """Make the folder and those above it; already there is success."""
        ...

    def list(self, path: str) -> list[Entry]:
        """What is in the folder, by name."""
        ...

    def stat(self, path: str) -> Entry: ...

    def rename(self, source: str, target: str) -> None:
        """Raises PathExists when ``target`` is there; its folder must exist."""
        ...

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Gone is success. A folder that is not empty wants ``recursive``, else PathExists."""
        ...
