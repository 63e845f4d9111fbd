"""Copies all files of one store to another, checks them by length and hash, and hands the portal's files over.

There is no journal: what is at the target with the same content is left as it is, so a move that was killed goes on
when it is begun again. Nothing of the source is deleted but its id, at the end.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from base.core.errors import LongshoreError
from base.files.store import marker
from base.files.store.base import Entry, Store, StoreUnavailable, find
from base.files.store.marker import NotTheStore

_BLOCK = 1 << 20
_AT_ONCE = 8  # files; of small ones most of the time is waiting
_BATCH = 500  # files that are handed to the threads before the next are looked for


@dataclass(slots=True)
class Moved:
    """What was done so far."""

    copied: int = 0
    bytes: int = 0  # of the copied files
    there: int = 0  # files that the target had already, with the same content
    folders: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)  # path, why

    @property
    def files(self) -> int:
        return self.copied + self.there


class TargetDiffers(LongshoreError):
    """The target has another file of that name."""


@dataclass(frozen=True, slots=True)
class StorePair:
    """The two stores and what they are called."""

    source: Store
    target: Store
    from_: str
    to: str


def require_right(ends: StorePair) -> str:
    """The id that goes with the files. NotTheStore when they are not at the source, or when the target is another
    portal's."""
    known = marker.known(ends.from_)
    here, there = marker.id_in(ends.source), marker.id_in(ends.target)
    if known and here != known.id:
        if there == known.id:
            raise NotTheStore(f"The files have been moved already: {ends.to} has the id of the portal's store.")
        raise NotTheStore(
            f"{ends.from_} has not the files that this portal's database knows; they were at {known.place}. Is its disk"
            " mounted, is its address right, are DATABASE_URL and LONGSHORE_HOME those of the portal?"
        )
    if there and there != here:
        raise NotTheStore(f"{ends.to} is the file store of another portal.")
    return here or uuid.uuid4().hex


def copy(ends: StorePair, *, replaces: bool, tell: Callable[[Moved, str], None]) -> Moved:
    """Copy everything. ``replaces``: files of the target that differ are written over, else they count as failed.
    ``tell`` is called again and again with the figures and the folder that is at work. What cannot be copied is in the
    result; StoreUnavailable when a store does not answer."""
    moved = Moved()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="move") as pool:
        for folder, files in _folders(ends.source):
            if folder.path != "/":
                _same_folder(ends.target, folder)
                moved.folders += 1
            for at in range(0, len(files), _BATCH):
                exact = ends.source.exact(files[at : at + _BATCH])
                for entry, outcome in zip(exact, pool.map(lambda each: _one(ends, each, replaces), exact), strict=True):
                    _count(moved, entry, outcome)
                tell(moved, folder.path)
    return moved


def hand_over(ends: StorePair, id_of_store: str) -> None:
    """The target is the portal's store now, and the source no longer."""
    marker.give(ends.target, id_of_store)
    marker.know(id_of_store, ends.to)
    marker.take(ends.source)


def _folders(store: Store) -> Iterator[tuple[Entry, Sequence[Entry]]]:
    """Each folder with the files in it, a folder before those in it."""
    waiting = [store.stat("/")]
    while waiting:
        (folder,) = store.exact([waiting.pop()])
        try:
            entries = store.list(folder.path)
        except LongshoreError:
            if find(store, folder.path) is None:
                continue  # deleted meanwhile
            raise
        waiting += [entry for entry in entries if entry.is_dir]
        yield folder, [entry for entry in entries if not entry.is_dir and entry.path != marker.REMOTE]


def _same_folder(target: Store, folder: Entry) -> None:
    target.mkdirs(folder.path, owner=folder.owner, mode=folder.mode)
    _same_marks(target, target.stat(folder.path), folder)


def _same_marks(target: Store, there: Entry, wanted: Entry) -> None:
    if (there.owner, there.mode) != (wanted.owner, wanted.mode):
        target.change(there.path, owner=wanted.owner, mode=wanted.mode)


def _one(ends: StorePair, entry: Entry, replaces: bool) -> bool | LongshoreError:
    """Whether the file was copied; False when it was there. The error, if it could not be."""
    try:
        return _same_file(ends, entry, replaces)
    except StoreUnavailable:
        raise
    except LongshoreError as error:
        return error


def _same_file(ends: StorePair, entry: Entry, replaces: bool) -> bool:
    there = find(ends.target, entry.path)
    if there and _is_same(ends, entry, there):
        _same_marks(ends.target, there, entry)
        return False
    if there and not replaces:
        raise TargetDiffers(f"{ends.to} has another file of that name")
    read = hashlib.sha256()
    with closing(ends.source.open_read(entry.path, known=entry)) as file:
        chunks = _hashed(iter(lambda: file.read(_BLOCK), b""), read)
        size = ends.target.write(entry.path, chunks, owner=entry.owner, mode=entry.mode)
    written = ends.target.stat(entry.path)
    if size != entry.size or written.size != size or _hash(ends.target, written) != read.digest():
        raise TargetDiffers("what was written is not what was read; was it changed meanwhile?")
    return True


def _is_same(ends: StorePair, entry: Entry, there: Entry) -> bool:
    if there.is_dir or there.size != entry.size:
        return False
    return _hash(ends.target, there) == _hash(ends.source, entry)


def _hash(store: Store, entry: Entry) -> bytes:
    with closing(store.open_read(entry.path, known=entry)) as file:
        return hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]  # it has readinto


def _hashed(chunks: Iterator[bytes], into: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        into.update(chunk)
        yield chunk


def _count(moved: Moved, entry: Entry, outcome: bool | LongshoreError) -> None:
    if isinstance(outcome, LongshoreError):
        moved.failed.append((entry.path, outcome.message))
    elif outcome:
        moved.copied += 1
        moved.bytes += entry.size
    else:
        moved.there += 1
