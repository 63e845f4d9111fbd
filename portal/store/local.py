"""The store as a folder of this host. Folders are 0700 and files 0600: only the portal's own user reads them."""

from __future__ import annotations

import builtins
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from portal.store.base import BadPath, Entry, PathExists, PathNotFound, StoreUnavailable

_PART = ".longshore-part"  # ending of a file being written; never listed, never readable by name


class LocalStore:
    def __init__(self, root: Path) -> None:
        self._root = root

    def open_read(self, path: str, offset: int = 0) -> BinaryIO:
        with _translated(path):
            file = os.fdopen(os.open(self._real(path), os.O_RDONLY | os.O_NOFOLLOW), "rb")
            file.seek(offset)
            return file

    def write(self, path: str, chunks: Iterable[bytes]) -> int:
        target = self._real(path)
        part = target.with_name(f".{uuid.uuid4().hex}{_PART}")
        with _translated(path):
            self._make(target.parent)
            if target.is_dir():
                raise IsADirectoryError
        try:
            size = _write_part(path, part, chunks)
            with _translated(path):
                part.replace(target)
            return size
        finally:
            part.unlink(missing_ok=True)

    def mkdirs(self, path: str) -> None:
        with _translated(path):
            self._make(self._real(path))

    def list(self, path: str) -> builtins.list[Entry]:
        folder = self._real(path)
        with _translated(path):
            names = sorted(each.name for each in folder.iterdir() if not each.name.endswith(_PART))
        base = "/" + "/".join(_names(path))
        found = []
        for name in names:
            try:
                found.append(_entry(f"{base.rstrip('/')}/{name}", (folder / name).lstat()))
            except FileNotFoundError:
                continue  # deleted between the two calls
        return found

    def stat(self, path: str) -> Entry:
        with _translated(path):
            return _entry("/" + "/".join(_names(path)), self._real(path).lstat())

    def rename(self, source: str, target: str) -> None:
        old, new = self._real(source), self._real(target)
        with _translated(source):
            old.lstat()
        with _translated(target):
            if new.exists():
                raise FileExistsError
            old.rename(new)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        real = self._real(path)
        if real == self._root:
            raise BadPath("The root of the store cannot be deleted.")
        with _translated(path):
            try:
                if not real.is_dir():
                    real.unlink()
                elif recursive:
                    shutil.rmtree(real)
                else:
                    real.rmdir()
            except FileNotFoundError:
                return

    def _real(self, path: str) -> Path:
        """The path on disk. A symbolic link on the way (nothing here makes one) may not lead outside."""
        real = self._root.joinpath(*_names(path))
        if real != self._root and not real.parent.resolve().is_relative_to(self._root.resolve()):
            raise BadPath(f"{path} is no path inside the store.")
        return real

    def _make(self, folder: Path) -> None:
        missing = []
        while not folder.is_dir():
            if folder.exists():
                raise NotADirectoryError
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)


def _names(path: str) -> list[str]:
    names = [name for name in path.split("/") if name]
    bad = any(name in (".", "..") or name.endswith(_PART) or len(name.encode()) > 255 for name in names)
    if bad or not path.startswith("/") or "\0" in path:
        raise BadPath(f"{path!r} is no path inside the store.")
    return names


def _entry(path: str, status: os.stat_result) -> Entry:
    is_dir = stat.S_ISDIR(status.st_mode)
    return Entry(path, is_dir, 0 if is_dir else status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _write_part(path: str, part: Path, chunks: Iterable[bytes]) -> int:
    """Errors of ``chunks`` pass as they are, those of the disk as ours. On the disk before it gets its name."""
    size = 0
    with _translated(path):
        file = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=1 << 16)
    with file:
        for chunk in chunks:
            with _translated(path):
                size += file.write(chunk)
        with _translated(path):
            file.flush()
            os.fsync(file.fileno())
    return size


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise PathNotFound(f"{path} does not exist.") from None
    except FileExistsError:
        raise PathExists(f"{path} exists already.") from None
    except (IsADirectoryError, NotADirectoryError):
        raise BadPath(f"{path} is not the kind of thing (file or folder) that was asked for.") from None
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise PathExists(f"{path} is not empty.") from None
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL):
            raise BadPath(f"{path} is no path inside the store.") from None
        raise StoreUnavailable(f"The file store cannot do that: {error.strerror}.") from error
