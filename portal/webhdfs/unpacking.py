"""Writes the files of a tar into a folder while it comes: one request for many small files, each of which HDFS takes
its time for. WebHDFS has nothing like it.

Readers see each file whole or not at all. When something goes wrong those that were written stay, and the answer names
them.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, BinaryIO

import structlog

from base.core.errors import BadRequest, LongshoreError, TooManyAtOnce
from base.files.store_actor import inside
from base.serving.places import Places
from portal.webhdfs.call import Call
from portal.webhdfs.writers import Writers

MOST = 10_000  # files and folders of one tar
LARGEST = 10 << 30  # bytes of their contents
AT_ONCE = 4  # tars in each web process
# Files of all tars together that are written at once. On HDFS nearly all of their time is waiting, but what is left of
# it keeps pages waiting, which other threads of this process make.
THREADS = 16
AHEAD = 2 * THREADS  # files of one tar in memory
_SMALL = 256 << 10  # bytes: a larger file is written while it comes, and the next ones wait for it
_NAMES = 64 << 10  # bytes that may say what a file is called
_PIECE = 1 << 18
_places, _writers = Places(AT_ONCE), Writers(THREADS)
log = structlog.get_logger()


class Unpacking:
    """A Writing whose pieces are those of the tar. Raises TooManyAtOnce with the first one."""

    def __init__(self, call: Call, size: int, *, overwrite: bool) -> None:
        """``size``: bytes of all files together as far as the client says it. Raises QuotaExceeded where they have no
        room."""
        self._store, self._folder, self._overwrite = call.store, call.path, overwrite
        self._user = call.name
        self._owner = call.owner_for(inside(call.path, "a"))
        self._room = call.writes.room(call.path, size)
        self._seen: set[str] = set()
        self._written: list[str] = []
        self._size = 0
        self._fault: LongshoreError | None = None
        self._lock = Lock()
        self._under_way = BoundedSemaphore(AHEAD)
        self._pipe: BinaryIO | None = None

    def add(self, piece: bytes) -> None:
        try:
            if self._pipe is None:
                self._begin()
            self._to.write(piece)
            self._to.flush()
        except BrokenPipeError:
            self.keep()

    def keep(self) -> int:
        """Wait for all files. Raises the first fault."""
        if self._pipe is None:
            raise BadRequest("Send a tar as the body of the request.")
        self._end()
        if self._fault is not None:
            raise self._fault
        return self._size

    def drop(self) -> None:
        """End, whatever has come. Files that are written stay."""
        self._end()
        if self._room is not None:
            self._room.keep()
            self._room.use.outdate()  # it may have replaced files, or have taken room for some that did not come
            self._room = None

    def told(self) -> dict[str, Any]:
        """What became of it, for the answer."""
        names = {} if self._fault is None else {"written": sorted(self._written)}
        return {"Unpacked": {"fileCount": len(self._written), **names}}

    def _begin(self) -> None:
        if not _places.take(self._user):
            raise TooManyAtOnce(
                f"{AT_ONCE} folders are being written at once, or {AT_ONCE // 2} of yours. Try again in a moment."
            )
        reader, writer = os.pipe()
        self._pipe, self._to = os.fdopen(reader, "rb"), os.fdopen(writer, "wb")
        self._thread = Thread(target=self._read, args=(self._pipe,), name="unpack", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        if self._pipe is None or self._to.closed:
            return
        with suppress(BrokenPipeError):
            self._to.close()
        self._thread.join()
        _places.give_back(self._user)

    def _read(self, pipe: BinaryIO) -> None:
        try:
            with closing(pipe):
                source = _Source(pipe)
                try:
                    for info in _members(source):
                        self._take(info, source)
                        if self._fault is not None:
                            return
                except (tarfile.TarError, ValueError, RecursionError, OverflowError) as error:
                    raise BadRequest(f"The body is no whole tar: {error}.") from None
                finally:
                    for _ in range(AHEAD):  # until none is under way: what came before a fault is written
                        self._under_way.acquire()
        except Exception as error:
            self._fail(error)

    def _take(self, info: tarfile.TarInfo, source: _Source) -> None:
        name = "/".join(part for part in info.name.split("/") if part not in ("", "."))
        path = inside(self._folder, name)
        if not info.isdir() and (not info.isreg() or info.issparse() or info.size < 0 or not name):
            raise BadRequest(f"{name} is neither a file nor a folder; links are not unpacked.")
        if path in self._seen:
            raise BadRequest(f"{name} is in the tar twice.")
        self._seen.add(path)
        self._size += info.size
        if len(self._seen) > MOST or self._size > LARGEST:
            raise BadRequest(f"A tar has at most {MOST:,} files and {LARGEST >> 30} GB. Send several.")
        if info.isdir():
            self._store.mkdirs(path, owner=self._owner)
            return
        if self._room is not None:
            self._room.reach(self._size)
        mode = 0o755 if info.mode & 0o100 else 0o644
        if info.size > _SMALL:
            self._write(name, path, source.data(info.size), mode)
            return
        content = b"".join(source.data(info.size))
        self._under_way.acquire()
        _writers.submit(self._user, partial(self._write_small, name, path, content, mode))

    def _write_small(self, name: str, path: str, content: bytes, mode: int) -> None:
        try:
            if self._fault is None:
                self._write(name, path, iter((content,)), mode)
        except Exception as error:
            self._fail(error)
        finally:
            self._under_way.release()

    def _write(self, name: str, path: str, content: Iterator[bytes], mode: int) -> None:
        self._store.write(path, content, owner=self._owner, mode=mode, overwrite=self._overwrite)
        self._written.append(name)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, LongshoreError):
            log.exception("a tar could not be unpacked", exc_info=error)
            error = LongshoreError(f"The portal failed: {type(error).__name__}.")
        with self._lock:
            self._fault = self._fault or error


class _Source:
    """The tar as a file that is read once. What ``tarfile`` reads of it are headers."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._at = file, 0
        self.left = _NAMES  # bytes of headers that may come before the next file
        self.last = b""

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> None:
        for _ in self.data(to - self._at):
            pass

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise tarfile.ReadError("a name in it is too long")
        self.last = self._file.read(size)
        self._at += len(self.last)
        return self.last

    def data(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes. Raises ReadError where they do not come."""
        while size > 0:
            piece = self._file.read(min(_PIECE, size))
            if not piece:
                raise tarfile.ReadError("it ends in the middle")
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def rest(self) -> None:
        while self._file.read(_PIECE):
            pass


def _members(source: _Source) -> Iterator[tarfile.TarInfo]:
    """What is in the tar; the caller reads the data of each. ``tarfile`` takes a broken header for the end: a tar ends
    with a block of zeros."""
    tar = tarfile.TarFile(fileobj=source)  # type: ignore[arg-type]
    while (info := tar.next()) is not None:
        source.left = _NAMES
        tar.members.clear()  # type: ignore[attr-defined]
        yield info
    if source.last != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("it ends in the middle")
    source.rest()
