"""The store as a folder of this host.

On the disk folders are 0700 and files 0600: only the portal's own user reads them. Owner and mode as users see them are
in extended attributes. Where the file system has none, the owner follows from the path (base.files.store.rules), and
the mode is the usual one.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from base.core.errors import BadRequest
from base.files.store import rules
from base.files.store.base import (
    PART,
    PART_AGE,
    PARTS,
    BadPath,
    Entry,
    PathExists,
    PathNotFound,
    Pick,
    Store,
    StoreFull,
    StoreUnavailable,
    TreeUsage,
    Writing,
    joined,
    names_of,
)

_OWNER, _MODE = "user.longshore.owner", "user.longshore.mode"
MARKER = ".longshore-store"  # a file in the root


class LocalStore(Store):
    def __init__(self, root: Path, marker: str = "") -> None:
        """``marker``: the id that the folder must have (base/files/store/marker.py); without one it is made if
        missing."""
        self.root = root
        self._marker, self._marker_file = marker, root / MARKER
        self._inside: tuple[list[str], Path] = ([], root)  # the folder that was last seen to be inside: names, path

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        with _translated(path):
            file = os.fdopen(os.open(self._real(path), os.O_RDONLY | os.O_NOFOLLOW), "rb")
            file.seek(offset)
            return file

    def read_each(self, entries: Sequence[Entry]) -> builtins.list[bytes]:
        """Without a file object for each, which takes longer than reading a small file."""
        contents = []
        for entry in entries:
            with _translated(entry.path):
                file = os.open(self._real(entry.path), os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    contents.append(os.read(file, entry.size))
                finally:
                    os.close(file)
        return contents

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        target = self._real(path)
        with _translated(path):
            self._make(target.parent, owner, 0o755)
            with suppress(FileNotFoundError):
                if stat.S_ISDIR(target.stat().st_mode):
                    raise IsADirectoryError
                if not overwrite:
                    raise FileExistsError
            parts = self.root / PARTS.lstrip("/")
            if not parts.is_dir():
                parts.mkdir(mode=0o700, exist_ok=True)
        part = parts / f"{uuid.uuid4().hex}{PART}"
        return _New(path, target, part, owner=owner, mode=mode, overwrite=overwrite)

    def begin_append(self, path: str) -> Writing:
        return _Appended(path, self._real(path), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)

    def truncate(self, path: str, size: int) -> None:
        real = self._real(path)
        with _translated(path), os.fdopen(os.open(real, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
            if size < 0 or size > os.fstat(file.fileno()).st_size:
                raise BadRequest(f"{path} is shorter than {size} bytes.")
            file.truncate(size)

    def mkdirs(self, path: str, *, owner: str = "", mode: int = 0o755) -> None:
        with _translated(path):
            self._make(self._real(path), owner, mode)

    def change(
        self, path: str, *, owner: str | None = None, mode: int | None = None, modified_at: datetime | None = None
    ) -> None:
        real = self._real(path)
        with _translated(path):
            real.lstat()
            _mark(real, owner or "", mode)
            if modified_at is not None:
                nanoseconds = round(modified_at.timestamp() * 1000) * 1_000_000
                os.utime(real, ns=(nanoseconds, nanoseconds), follow_symlinks=False)

    def usage(self, path: str) -> TreeUsage:
        entry = self.stat(path)
        if not entry.is_dir:
            return TreeUsage(entry.size, 1, 0)
        size, files, folders = 0, 0, 1
        with _translated(path):
            for folder, below, names in os.walk(self._real(path)):
                below[:] = [name for name in below if not name.endswith(PART)]
                folders += len(below)
                for name in names:
                    if not self._is_ours(Path(folder), name):
                        with suppress(FileNotFoundError):  # deleted meanwhile
                            size += Path(folder, name).lstat().st_size
                            files += 1
        return TreeUsage(size, files, folders)

    def list(self, path: str, pick: Pick | None = None) -> builtins.list[Entry]:
        folder = self._real(path)
        with _translated(path):
            if folder.is_symlink():
                raise NotADirectoryError
            names: Sequence[str] = sorted(name for name in os.listdir(folder) if not self._is_ours(folder, name))
        names = pick(names) if pick else names
        base = joined(names_of(path))
        entries = []
        for name in names:
            try:
                entries.append(_entry(f"{base.rstrip('/')}/{name}", f"{folder}/{name}"))
            except FileNotFoundError:
                continue  # deleted between the two calls
        return entries

    def stat(self, path: str) -> Entry:
        with _translated(path):
            return _entry(joined(names_of(path)), str(self._real(path)))

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        old, new = self._real(source), self._real(target)
        with _translated(source):
            old.lstat()
        with _translated(target):
            if overwrite:
                old.replace(new)
            elif old.is_dir():
                if new.exists():
                    raise FileExistsError
                old.replace(new)
            else:  # of two at once the second is refused
                os.link(old, new, follow_symlinks=False)
                old.unlink()

    def clean_up(self, age: float = PART_AGE) -> int:
        folder, swept = self.root / PARTS.lstrip("/"), 0
        with _translated(PARTS):
            for part in folder.iterdir() if folder.is_dir() else ():
                with suppress(FileNotFoundError, BlockingIOError), part.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if time.time() - os.fstat(file.fileno()).st_mtime >= age:
                        part.unlink()
                        swept += 1
        return swept

    def delete(self, path: str, *, recursive: bool = False) -> None:
        real = self._real(path)
        if real == self.root:
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
        """Return the path on disk. A symbolic link on the way (nothing here makes one) may not lead outside."""
        names = names_of(path)
        if names[:1] == [MARKER]:
            raise BadPath(f"{path} is no path inside the store.")
        if self._marker:
            self._check_marker()
        elif not names:
            with _translated(path):
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)  # the root of a store is always there
        if not names:
            return self.root
        above, folder = self._inside  # whoever goes through a folder asks about the same one again and again
        if names[:-1] != above:
            above = names[:-1]
            folder = self.root.joinpath(*above)
            if not f"{os.path.realpath(folder)}/".startswith(f"{os.path.realpath(self.root)}/"):
                raise BadPath(f"{path} is no path inside the store.")
            self._inside = above, folder
        return folder / names[-1]

    def _is_ours(self, folder: Path, name: str) -> bool:
        """Whether it is the store's own file, which nobody sees."""
        return name.endswith(PART) or (name == MARKER and folder == self.root)

    def _check_marker(self) -> None:
        try:
            file = os.open(
                self._marker_file, os.O_RDONLY
            )  # each call of the store looks: a file object takes thrice as long
            try:
                id = os.read(file, len(self._marker) + 2).decode(errors="replace").strip()
            finally:
                os.close(file)
        except OSError:
            id = ""
        if id != self._marker:
            raise StoreUnavailable("The file store's folder is not the one that was made for it. Is its disk mounted?")

    def _make(self, folder: Path, owner: str, mode: int) -> None:
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            try:
                each.mkdir(mode=0o700, exist_ok=True)  # another writer may have made it since it was missing
            except FileExistsError:
                raise NotADirectoryError from None
            if self.root in each.parents:
                _mark(each, owner, mode)


class _Appended:
    """A file that is being written; it is flushed to the disk before ``keep`` returns."""

    def __init__(self, path: str, real: Path, flags: int) -> None:
        self._path = path
        with _translated(path):
            self._file = os.fdopen(os.open(real, flags, 0o600), "ab", buffering=1 << 16)

    def add(self, piece: bytes) -> None:
        with _translated(self._path):
            self._file.write(piece)

    def keep(self) -> int:
        with _translated(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def drop(self) -> None:
        with suppress(OSError):  # what could not be flushed cannot be now
            self._file.close()


class _New(_Appended):
    """Written under another name until ``keep``. It is locked while its writer lives."""

    def __init__(self, path: str, target: Path, part: Path, *, owner: str, mode: int, overwrite: bool) -> None:
        self._target, self._part = target, part
        self._owner, self._mode, self._overwrite = owner, mode, overwrite
        super().__init__(path, self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with _translated(path):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def keep(self) -> int:
        size = super().keep()
        with _translated(self._path):
            _mark(self._part, self._owner, self._mode)
            if self._overwrite:
                self._part.replace(self._target)
            else:
                os.link(self._part, self._target)
        return size

    def drop(self) -> None:
        super().drop()
        self._part.unlink(missing_ok=True)


def _entry(path: str, real: str) -> Entry:
    status = os.lstat(real)
    is_dir = stat.S_ISDIR(status.st_mode)
    return Entry(
        path=path,
        is_dir=is_dir,
        size=0 if is_dir else status.st_size,
        modified_at=datetime.fromtimestamp(status.st_mtime, UTC),
        owner=_attribute(real, _OWNER) or rules.owner_by_name(path) or "root",
        group="supergroup",
        mode=int(_attribute(real, _MODE) or ("755" if is_dir else "644"), 8),
    )


def _mark(real: Path, owner: str, mode: int | None) -> None:
    """Store owner and mode with the file, where the file system can."""
    marks = {_OWNER: owner, _MODE: "" if mode is None else f"{mode & 0o1777:o}"}
    for name, value in marks.items():
        if value:
            try:
                os.setxattr(real, name, value.encode())
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EPERM):
                    raise


def _attribute(real: str, name: str) -> str:
    try:
        return os.getxattr(real, name, follow_symlinks=False).decode()
    except OSError:
        return ""


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
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"The file store has no room for {path}: {error.strerror}.") from error
        raise StoreUnavailable(f"The file store cannot do that: {error.strerror}.") from error
