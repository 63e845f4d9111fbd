"""Packs the folder of a job's codeDir as one tar on this host. It is read from the store once an attempt, and all tasks
of the attempt that start here share it. Nothing is put into a container before the tar is whole: after a failure in the
middle the next start would unpack another one, of code that has changed since, over what the container already has.

Whoever needs a tar holds a lock on its file. The locks work between threads and processes, and that of a killed worker
ends with it. Tars that nobody holds are deleted when they are old or there is no room for more.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from base.files.store.base import Entry, PathNotFound, Store, StoreUnavailable, names_of
from base.files.tar_header import END, filled_up, tar_header

INSIDE = "pai/code"  # the folder in the container where the tar is unpacked
KEPT = 900.0  # seconds a tar stays after its last use: a task that is tried again needs it soon
ROOM = 4 << 30  # bytes that tars may take which nobody needs at the moment
_READERS = 16  # small files read at once: from HDFS each takes some milliseconds, whatever its size
_BATCH = 8  # of them one after the other: handing each to a thread would take longer than reading it from a disk
_SMALL = 1 << 17  # bytes
_PIECE = 1 << 16  # of a large file: after each it is told how far the reading is
_BUFFER = 1 << 20
Report = Callable[[int, int], None]
Visible = Callable[[Iterable[Entry]], Iterable[Entry]]


class CodeTooLarge(Exception):
    """The code is larger than CODE_LIMIT."""


@contextmanager
def spooled(
    store: Store, path: str, key: str, report: Report, visible: Visible = lambda entries: entries
) -> Iterator[Path]:
    """The tar of the file or folder at ``path``, packed if it is not there yet; it stays while the ``with`` block
    lasts.

    ``key`` names the attempt. ``visible`` filters the entries of a folder to those that the user may see. ``report`` is
    called with the bytes read and their sum, and may raise to give up. Raises CodeTooLarge, PathNotFound when there is
    nothing at ``path``, and the store's other errors.
    """
    folder = _folder()
    target = folder / f"{key}.tar"
    with _alone(folder / f"{key}.lock", lambda: report(0, 0)):
        locked = _open_locked(target)
        if locked is None:
            clean_up()
            locked = _pack(store, path, target, report, visible)
        os.utime(target)
    with locked:
        yield target


def clean_up() -> None:
    """Delete tars that nobody needs: those that are old, and the oldest of the rest beyond ROOM."""
    tars = []
    for file in _folder().iterdir():
        with suppress(FileNotFoundError):
            status = file.stat()
            tars.append((status.st_mtime, status.st_size, file))
    room = ROOM
    for used_at, size, file in sorted(tars, reverse=True):
        room -= size
        if room < 0 or time.time() - used_at > KEPT:
            _delete_unless_locked(file)


def _folder() -> Path:
    folder: Path = settings.HOME / "spool" / "code"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _pack(store: Store, path: str, target: Path, report: Report, visible: Visible) -> BinaryIO:
    """Write the tar; returns it open and locked."""
    root = store.stat(path)
    part = target.with_suffix(".part")
    file = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=_BUFFER)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        try:
            _write(store, root, file, report, visible)
        except PathNotFound:
            raise _changed(path) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise StoreUnavailable("the portal's disk has no room for the code.") from None
        part.replace(target)
        return file
    except BaseException:
        part.unlink(missing_ok=True)
        with suppress(OSError):  # what is buffered may find no room either
            file.close()
        raise


def _write(store: Store, root: Entry, file: BinaryIO, report: Report, visible: Visible) -> None:
    base = names_of(root.path)[-1]
    entries = list(_walk(store, root, visible, lambda: report(0, 0)))
    total, done = sum(entry.size for entry in entries), 0

    def count_up(count: int) -> None:
        nonlocal done
        done += count
        report(done, total)

    for entry, content in contents(store, entries):
        file.write(_header(f"{INSIDE}/{base}{entry.path.removeprefix(root.path)}", entry))
        with content:
            for piece in _pieces(content, entry):
                file.write(piece)
                count_up(len(piece))
        file.write(filled_up(entry.size))
    file.write(END)
    file.flush()


def _walk(store: Store, root: Entry, visible: Visible, working: Callable[[], None]) -> Iterator[Entry]:
    """The entry and all below it, a folder before its content. Raises CodeTooLarge once the sum exceeds the limit."""
    total, todo = 0, deque([root])
    while todo:
        entry = todo.popleft()
        total += entry.size
        if total > settings.CODE_LIMIT:
            raise CodeTooLarge
        yield entry
        if entry.is_dir:
            working()
            todo.extend(visible(store.list(entry.path)))


def contents(store: Store, entries: Iterable[Entry]) -> Iterator[tuple[Entry, BinaryIO]]:
    """Each entry with its content, in order. Several threads read small files ahead, a batch of them at a time."""
    ahead: deque[Future[list[tuple[Entry, bytes | None]]]] = deque()
    left = iter(entries)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="code") as readers:
        while batch := list(islice(left, _BATCH)):
            ahead.append(readers.submit(_read_small, store, batch))
            if len(ahead) >= 2 * _READERS:
                yield from _opened(store, ahead.popleft().result())
        while ahead:
            yield from _opened(store, ahead.popleft().result())


def _opened(store: Store, batch: list[tuple[Entry, bytes | None]]) -> Iterator[tuple[Entry, BinaryIO]]:
    for entry, content in batch:
        yield entry, store.open_read(entry.path, known=entry) if content is None else io.BytesIO(content)


def _read_small(store: Store, batch: list[Entry]) -> list[tuple[Entry, bytes | None]]:
    """Each with its mode and its content, None for large files."""
    exact = store.exact(batch)
    small = [entry for entry in exact if not entry.is_dir and 0 < entry.size <= _SMALL]
    contents = dict(zip((entry.path for entry in small), store.read_each(small), strict=True))
    return [(entry, contents.get(entry.path, None if entry.size else b"")) for entry in exact]


def _pieces(content: BinaryIO, entry: Entry) -> Iterator[bytes]:
    """Raises StoreUnavailable when the file has become shorter since it was listed."""
    left = entry.size
    while left:
        piece = content.read(min(_PIECE, left))
        if len(piece) < min(_PIECE, left):
            raise _changed(entry.path)
        left -= len(piece)
        yield piece


def _changed(path: str) -> StoreUnavailable:
    return StoreUnavailable(f"{path} changed while it was read.")


def _header(name: str, entry: Entry) -> bytes:
    """Readable by all and writable by none: commands write to the container's own copy, ``./code``."""
    mode = 0o555 if entry.is_dir or entry.mode & 0o111 else 0o444
    return tar_header(name, size=entry.size, mode=mode, mtime=int(entry.modified_at.timestamp()), is_dir=entry.is_dir)


@contextmanager
def _alone(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """One caller at a time holds the lock. ``waiting`` is called now and then by the others and may raise to give
    up."""
    while True:
        with lock.open("ab") as file:
            if _try_lock(file, fcntl.LOCK_EX) and _is_there(file):
                yield
                return
        waiting()
        time.sleep(0.1)


def _open_locked(target: Path) -> BinaryIO | None:
    """The tar, open and locked; None when there is none."""
    try:
        file = target.open("rb")
    except FileNotFoundError:
        return None
    fcntl.flock(file, fcntl.LOCK_SH)
    if _is_there(file):
        return file
    file.close()
    return None


def _delete_unless_locked(path: Path) -> None:
    with suppress(FileNotFoundError), path.open("rb") as file:
        if _try_lock(file, fcntl.LOCK_EX):
            path.unlink()


def _try_lock(file: io.IOBase, how: int) -> bool:
    """False when somebody else has it."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(file: io.IOBase) -> bool:
    """Whether the file still has its name: it may be deleted between opening and locking it."""
    return os.fstat(file.fileno()).st_nlink > 0
