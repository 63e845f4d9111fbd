"""The folder that a job's codeDir names, as one tar on this host: read from the store once an attempt, and shared by
all tasks of it that start here.
"""

from __future__ import annotations

import fcntl
import io
import os
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from portal.store.base import Entry, Store, names_of

INSIDE = "pai/code"  # where it lands in the container
KEPT = 900.0  # seconds a tar stays after it was last wanted
_READERS = 16  # small files read at once: from HDFS each takes some milliseconds, whatever its size
_SMALL = 1 << 20
_PIECE = 1 << 20
Report = Callable[[int, int], None]


class TooLarge(Exception):
    """``size`` in bytes, as far as it was summed."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def spooled(store: Store, path: str, key: str, report: Report) -> Path:
    """The tar of what is at ``path``, made if it is not there yet. ``key`` names the attempt. ``report`` is told the
    bytes read and their sum, and may raise to give up. Raises TooLarge and the store's errors."""
    folder = settings.HOME / "spool" / "code"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = folder / f"{key}.tar"
    with _alone(folder / f"{key}.lock", lambda: report(0, 0)):
        if not target.exists():
            sweep(folder)
            _make(store, path, target, report)
        os.utime(target)
    return target


def sweep(folder: Path) -> None:
    """Deletes what nobody wanted for a while; one that is being read stays readable."""
    for file in folder.iterdir():
        try:
            if time.time() - file.stat().st_mtime > KEPT:
                file.unlink()
        except FileNotFoundError:
            continue


def _make(store: Store, path: str, target: Path, report: Report) -> None:
    base = names_of(path)[-1]
    found = list(_walk(store, store.stat(path)))
    total = sum(entry.size for entry in found)
    part = target.with_suffix(".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    done = 0
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, content in _contents(store, found):
            name = f"{INSIDE}/{base}{entry.path.removeprefix(path)}"
            with content:
                tar.addfile(_header(name, entry), content)
            done += entry.size
            os.utime(part)
            report(done, total)
    part.replace(target)


def _walk(store: Store, entry: Entry) -> Iterator[Entry]:
    """The entry and all below it, a folder before what is in it. Raises TooLarge as soon as the sum is."""
    total, todo = 0, deque([entry])
    while todo:
        entry = todo.popleft()
        total += entry.size
        if total > settings.CODE_LIMIT:
            raise TooLarge(total)
        yield entry
        if entry.is_dir:
            todo.extend(store.list(entry.path))


def _contents(store: Store, entries: Iterable[Entry]) -> Iterator[tuple[Entry, io.IOBase]]:
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


def _next(store: Store, ahead: deque[tuple[Entry, Future[bytes] | None]]) -> tuple[Entry, io.IOBase]:
    entry, read = ahead.popleft()
    if read is not None:
        return entry, io.BytesIO(read.result())
    return entry, io.BytesIO() if entry.size == 0 else store.open_read(entry.path)  # type: ignore[return-value]


def _read(store: Store, entry: Entry) -> bytes:
    with store.open_read(entry.path) as file:
        return file.read(entry.size)


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
    """One at a time, over threads and processes; ``waiting`` is called now and then and may raise to give up."""
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(0.1)
        yield
