"""Sends a folder as one tar, which is built while it is sent: it needs little memory and no space on the disk."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from base.core.errors import BadRequest, LongshoreError, TooManyAtOnce
from base.files.store.base import Entry, PathNotFound
from base.files.store_actor import StoreActor
from base.files.tar_header import END, filled_up, tar_header
from base.serving.places import Places
from portal.files.queries import has_tar

AT_ONCE = 4  # each holds a thread until it is sent, also when nobody reads it any more
LARGEST = 10 << 30  # bytes
_PIECE = 1 << 20
_places = Places(AT_ONCE)


class TooManyDownloads(TooManyAtOnce):
    """Several folders are being downloaded. Try again in a moment."""

    code = "BusyError"


def require_tar(who: StoreActor, folder: str) -> None:
    """BadRequest for what is no folder, is too large, or holds the folders of all users."""
    if not who.store.stat(folder).is_dir:
        raise BadRequest(f"{folder} is no folder.")
    if not has_tar(folder):
        raise BadRequest("Folders of all users are not downloaded at once. Choose one of them.")
    if who.store.usage(folder).size > LARGEST:
        raise BadRequest(f"{folder} has more than {LARGEST >> 30} GB. Fetch it with pai-fs.")


class FolderTar:
    """Iterate once, then close, also when the iteration was never begun. Raises TooManyDownloads at once when there are
    too many."""

    def __init__(self, who: StoreActor, folder: str) -> None:
        if not _places.take(who.name):
            raise TooManyDownloads
        self._user, self._held = who.name, True
        self._pieces = _tar(who, folder)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except StopIteration:
            self.close()
            raise

    def close(self) -> None:
        if self._held:
            self._held = False
            self._pieces.close()
            _places.give_back(self._user)


def _tar(who: StoreActor, folder: str) -> Generator[bytes]:
    name = folder.rsplit("/", 1)[-1] or "store"
    yield from _folder(who, folder, name)
    yield END


def _folder(who: StoreActor, path: str, name: str) -> Iterator[bytes]:
    yield _header(who.store.stat(path), name)
    try:
        entries = who.store.exact(who.entries(path))
    except PathNotFound:
        return  # deleted meanwhile
    for entry in entries:
        below = f"{name}/{entry.name}"
        yield from _folder(who, entry.path, below) if entry.is_dir else _file(who, entry, below)


def _file(who: StoreActor, entry: Entry, name: str) -> Iterator[bytes]:
    """A file that shrinks meanwhile breaks the download off, so that nobody takes a part of a file for all of it."""
    try:
        file = who.store.open_read(entry.path, known=entry)
    except PathNotFound:
        return
    with file:
        yield _header(entry, name)
        left = entry.size
        while left > 0 and (data := file.read(min(_PIECE, left))):
            left -= len(data)
            yield data
    if left:
        raise LongshoreError(f"{entry.path} became shorter while it was read.")
    yield filled_up(entry.size)


def _header(entry: Entry, name: str) -> bytes:
    mtime = int(entry.modified_at.timestamp())
    return tar_header(name, size=entry.size, mode=entry.mode, mtime=mtime, is_dir=entry.is_dir, owner=entry.owner)
