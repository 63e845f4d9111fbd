"""The folder that a job's codeDir names, as one tar on this host: read from the store once an attempt, and shared by
all tasks of it that start here.

A file of the spool that somebody needs is locked by him, over threads and processes, and a killed worker's lock ends
with it; what nobody holds is deleted when it is old or there is no more room.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from django.conf import settings

from portal.files.store.base import Entry, PathNotFound, Store, StoreUnavailable, names_of

INSIDE = "pai/code"  # where it lands in the container
KEPT = 900.0  # seconds a tar stays after it was last wanted: retries of single tasks come soon
ROOM = 4 << 30  # bytes of tars that nobody needs at the moment
_READERS = 16  # small files read at once: from HDFS each takes some milliseconds, whatever its size
_SMALL = 1 << 20
Report = Callable[[int, int], None]
Visible = Callable[[Iterable[Entry]], Iterable[Entry]]


class TooLarge(Exception):
    """``size`` in bytes, as far as it was summed."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


@contextmanager
def spooled(
    store: Store, path: str, key: str, report: Report, visible: Visible = lambda entries: entries
) -> Iterator[Path]:
    """The tar of what is at ``path``, made if it is not there yet; it stays while the block lasts. ``key`` names the
    attempt, ``visible`` leaves of a folder's entries those that the reader may know of. ``report`` is told the bytes
    read and their sum, and may raise to give up. Raises TooLarge, PathNotFound when there is nothing at ``path``, and
    the store's other errors."""
    folder = _folder()
    target = folder / f"{key}.tar"
    with _alone(folder / f"{key}.lock", lambda: report(0, 0)):
        held = _hold(target)
        if held is None:
            sweep()
            held = _make(store, path, target, report, visible)
        os.utime(target)
    with held:
        yield target


def sweep() -> None:
    """Deletes what nobody needs: all that is old, and of the rest the oldest beyond ROOM."""
    found = []
    for file in _folder().iterdir():
        with suppress(FileNotFoundError):
            known = file.stat()
            found.append((known.st_mtime, known.st_size, file))
    room = ROOM
    for wanted, size, file in sorted(found, reverse=True):
        room -= size
        if room < 0 or time.time() - wanted > KEPT:
            _delete_unless_held(file)


def _folder() -> Path:
    folder: Path = settings.HOME / "spool" / "code"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _make(store: Store, path: str, target: Path, report: Report, visible: Visible) -> BinaryIO:
    """The finished tar, open and locked."""
    root = store.stat(path)
    part = target.with_suffix(".part")
    file = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
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
        file.close()
        part.unlink(missing_ok=True)
        raise


def _write(store: Store, root: Entry, file: BinaryIO, report: Report, visible: Visible) -> None:
    base = names_of(root.path)[-1]
    found = list(_walk(store, root, visible, lambda: report(0, 0)))
    total, done = sum(entry.size for entry in found), 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        report(done, total)

    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, content in contents(store, found):
            name = f"{INSIDE}/{base}{entry.path.removeprefix(root.path)}"
            with content:
                tar.addfile(_header(name, entry), _Told(content, entry, told))
    file.flush()


def _walk(store: Store, root: Entry, visible: Visible, working: Callable[[], None]) -> Iterator[Entry]:
    """The entry and all below it, a folder before what is in it. Raises TooLarge as soon as the sum is."""
    total, todo = 0, deque([root])
    while todo:
        entry = todo.popleft()
        total += entry.size
        if total > settings.CODE_LIMIT:
            raise TooLarge(total)
        yield entry
        if entry.is_dir:
            working()
            todo.extend(visible(store.list(entry.path)))


def contents(store: Store, entries: Iterable[Entry]) -> Iterator[tuple[Entry, BinaryIO]]:
    """Each with its content, in order; small files are read ahead by several threads."""
    ahead: deque[tuple[Entry, Future[bytes] | None]] = deque()
    with ThreadPoolExecutor(_READERS, thread_name_prefix="code") as readers:
        for entry in entries:
            small = not entry.is_dir and 0 < entry.size <= _SMALL
            ahead.append((entry, readers.submit(_read, store, entry) if small else None))
            if len(ahead) >= 2 * _READERS:
                yield _next(store, ahead)
        while ahead:
            yield _next(store, ahead)


def _next(store: Store, ahead: deque[tuple[Entry, Future[bytes] | None]]) -> tuple[Entry, BinaryIO]:
    entry, read = ahead.popleft()
    if read is not None:
        return entry, io.BytesIO(read.result())
    return entry, io.BytesIO() if entry.size == 0 else store.open_read(entry.path, known=entry)


def _read(store: Store, entry: Entry) -> bytes:
    with store.open_read(entry.path, known=entry) as file:
        return file.read(entry.size)


class _Source(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class _Told:
    """A file's content that tells how much of it was read. It may have become shorter since it was listed."""

    def __init__(self, content: _Source, entry: Entry, told: Callable[[int], None]) -> None:
        self._content, self._entry, self._told = content, entry, told

    def read(self, size: int = -1) -> bytes:
        data = self._content.read(size)
        if len(data) < size:
            raise _changed(self._entry.path)
        self._told(len(data))
        return data


def _changed(path: str) -> StoreUnavailable:
    return StoreUnavailable(f"{path} changed while it was read.")


def _header(name: str, entry: Entry) -> tarfile.TarInfo:
    """Readable by all, writable by none: the container's own copy is beside its start directory."""
    header = tarfile.TarInfo(name)
    header.mtime = int(entry.modified_at.timestamp())
    if entry.is_dir:
        header.type, header.mode = tarfile.DIRTYPE, 0o555
    else:
        header.size, header.mode = entry.size, 0o555 if entry.mode & 0o111 else 0o444
    return header


@contextmanager
def _alone(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """One at a time; ``waiting`` is called now and then and may raise to give up."""
    while True:
        with lock.open("ab") as file:
            if _locked(file, fcntl.LOCK_EX) and _is_there(file):
                yield
                return
        waiting()
        time.sleep(0.1)


def _hold(target: Path) -> BinaryIO | None:
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


def _delete_unless_held(path: Path) -> None:
    with suppress(FileNotFoundError), path.open("rb") as file:
        if _locked(file, fcntl.LOCK_EX):
            path.unlink()


def _locked(file: io.IOBase, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(file: io.IOBase) -> bool:
    """It was not deleted between opening and locking it."""
    return os.fstat(file.fileno()).st_nlink > 0
