"""Paths on the command line: of this machine and of the store."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from .errors import NoRoom, NoSuchPath, PaiFsError, ThereAlready, WrongUsage
from .remote import PIECE, Remote, RemoteEntry
from .running import scope

SCHEME = "hdfs://"
_PART = ".pai-fs-part"
_STORES_PART = ".longshore-part"  # what the portal calls its own unfinished files
_A_PART = re.compile(r"\..*\.[0-9a-f]{12}(-\d+)?" + re.escape(_PART), re.DOTALL)


@dataclass(frozen=True)
class LocalFile:
    """One file to copy. ``name`` is relative to the path on the command line; ``mark`` changes when the content may
    have changed, and is another one on each machine. ``modified`` in seconds."""

    name: str
    size: int
    mark: str
    modified: float = 0


@dataclass
class FoundFiles:
    """What is in a folder and all below it. ``left_out`` and ``loops`` are paths, the first with the reason: what
    cannot be copied, and links to a folder in which they are. ``links`` were followed."""

    folders: list[str] = field(default_factory=list)
    files: list[LocalFile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    links: int = 0


@dataclass(frozen=True)
class ThereFile:
    """A file that is in the target already; ``modified`` in seconds."""

    size: int
    modified: float


def is_part(name: str) -> bool:
    """Whether a file of this name is an unfinished copy of ours."""
    return _A_PART.fullmatch(name) is not None


def part_of(name: str, mark: str) -> str:
    """The name of a file while it is copied. It depends on the mark, so that a changed file begins anew."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}.{base[:40]}.{mark}{_PART}"


def place(text: str, remote: Remote) -> Location:
    """Return the place of a path. ``hdfs://a/b`` has no host and means /a/b; anything without a scheme is local."""
    return RemotePlace(store_path(text), remote) if text.startswith(SCHEME) else LocalSide(text)


def store_path(text: str) -> str:
    """``hdfs://a/b`` as /a/b. Raises WrongUsage: an address with ``..`` in it would silently be another one."""
    names = [name for name in text.removeprefix(SCHEME).split("/") if name]
    if "." in names or ".." in names:
        raise WrongUsage(f"{text}: a path in the store has no . and no .. in it.")
    if not _is_text(text):
        raise WrongUsage(f"{text!r}: a path in the store is UTF-8.")
    return "/" + "/".join(names)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class LocalSide:
    """A path of this machine, which may not exist. Names below it are relative, in POSIX form; empty is the path
    itself."""

    compares = False  # whether it stores a whole file or nothing, and compares the length itself

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"

    def is_dir(self) -> bool | None:
        """None when it does not exist."""
        return os.path.isdir(self.path) if os.path.exists(self.path) else None

    def files(self) -> FoundFiles:
        """All folders and files below it. Links are followed, as HDFS's own client does it. Raises OSError when the
        folder itself cannot be read."""
        if not os.path.isdir(self.path):
            return FoundFiles(files=[self._file("")])
        found = FoundFiles()
        real = Path(os.path.realpath(self.path))
        todo = [("", frozenset(_identity(each.stat()) for each in (real, *real.parents)))]
        while todo:
            base, above = todo.pop()
            try:
                names = sorted(os.listdir(self._at(base)))
            except OSError as error:
                if not base:
                    raise
                found.left_out.append(f"{self._at(base)} ({error.strerror})")
                continue
            for name in names:
                inner = f"{base}/{name}" if base else name
                if (known := self._look(inner, above, found)) is not None:
                    todo.append((inner, above | {known}))
        return found

    def _look(self, name: str, above: frozenset[tuple[int, int]], found: FoundFiles) -> tuple[int, int] | None:
        """Put it into ``found``. Returns the identity of a folder that is to be walked through."""
        path = self._at(name)
        if not _is_text(name) or name.endswith(_STORES_PART):
            found.left_out.append(f"{path} (the store takes no such name)")
            return None
        try:
            status = path.stat()
        except OSError as error:
            is_dead = path.is_symlink() and isinstance(error, FileNotFoundError)
            found.left_out.append(f"{path} ({'a link that leads nowhere' if is_dead else error.strerror})")
            return None
        if stat.S_ISDIR(status.st_mode):
            if (known := _identity(status)) in above:
                found.loops.append(str(path))
                return None
            found.links += path.is_symlink()
            found.folders.append(name)
            return known
        if name.endswith(_PART):
            return None
        if not stat.S_ISREG(status.st_mode):
            found.left_out.append(f"{path} (neither a file nor a folder)")
        elif not os.access(path, os.R_OK):
            found.left_out.append(f"{path} (you may not read it)")
        else:
            found.links += path.is_symlink()
            found.files.append(self._of(name, status))
        return None

    def size(self, name: str) -> int | None:
        try:
            return self._at(name).stat().st_size
        except FileNotFoundError:
            return None

    def there(self, folder: str) -> dict[str, ThereFile] | None:
        """The files in the folder by name; None when it does not exist."""
        found = {}
        try:
            for each in self._at(folder).iterdir():
                with suppress(FileNotFoundError):  # another copy may rename its part meanwhile
                    status = each.lstat()
                    if not each.is_dir():
                        found[each.name] = ThereFile(status.st_size, status.st_mtime)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found

    def require_room(self, name: str, size: int) -> None:
        """NoRoom where the disk, or the user's quota in the store, has no room for ``size`` bytes more."""
        folder = self._at(name)
        while not folder.exists():
            folder = folder.parent
        disk = shutil.disk_usage(folder)
        if disk.total and size > disk.free:
            raise NoRoom(f"The disk of {folder} has {disk.free} bytes free: {size} more do not fit.")

    def path_of(self, name: str) -> str:
        return str(self._at(name))

    def where(self, name: str) -> str:
        """The same for all processes of this machine."""
        return os.path.abspath(self._at(name))

    def read(self, name: str, offset: int, most: int | None) -> Iterator[bytes]:
        with self._at(name).open("rb") as file:
            file.seek(offset)
            left = sys.maxsize if most is None else most
            while data := file.read(min(PIECE, left)):
                left -= len(data)
                yield data

    def start(self, name: str) -> None:
        """Make an empty file, and the folders above it."""
        self._at(name).parent.mkdir(parents=True, exist_ok=True)
        self._at(name).write_bytes(b"")

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        """Add to its end; what arrived before a failure may stay."""
        try:
            with self._at(name).open("ab") as file:
                for data in pieces:
                    file.write(data)
        except OSError as error:
            if error.filename:
                raise
            raise NoRoom(f"{error.strerror}.") from None  # the disk is full, or a file may not be so long

    def put(self, name: str, part: str, pieces: Iterator[bytes], *, replace: bool) -> None:
        """Write all of it or nothing; ``part`` is its name until then. Raises ThereAlready."""
        self.start(part)
        try:
            self.add(part, pieces)
            self.rename(part, name, replace=replace)
        except BaseException:
            self._at(part).unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Delete a file, if that can be done."""
        with suppress(OSError):
            self._at(name).unlink()

    def rename(self, name: str, target: str, *, replace: bool) -> None:
        """Raises ThereAlready, also for the second of two who do it at once."""
        if replace:
            self._at(name).replace(self._at(target))
            return
        try:
            os.link(self._at(name), self._at(target))
        except FileExistsError:
            raise ThereAlready(f"{self._at(target)} exists.") from None
        except OSError:  # a disk without links
            self._at(name).rename(self._at(target))
        else:
            self._at(name).unlink()

    def mkdir(self, name: str) -> None:
        self._at(name).mkdir(parents=True, exist_ok=True)

    def split(self) -> tuple[LocalSide, str]:
        """The folder that it is in, and its name there."""
        folder, name = os.path.split(os.path.abspath(self.path))
        return LocalSide(folder), name

    def _at(self, name: str) -> Path:
        return Path(self.path, name) if name else Path(self.path)

    def _file(self, name: str) -> LocalFile:
        path = self._at(name)
        try:
            status = path.stat()
        except FileNotFoundError:
            raise NoSuchPath(f"{path} does not exist.") from None
        if not stat.S_ISREG(status.st_mode):
            raise PaiFsError(f"{path} is neither a file nor a folder.")
        return self._of(name, status)

    def _of(self, name: str, status: os.stat_result) -> LocalFile:
        mark = _mark(self.path, name, status.st_size, status.st_mtime_ns)
        return LocalFile(name, status.st_size, mark, status.st_mtime)


class RemotePlace:
    """A path of the store, with the methods of LocalSide."""

    def __init__(self, path: str, remote: Remote) -> None:
        self.path = path
        self._remote = remote

    def is_dir(self) -> bool | None:
        entry = self._remote.find(self.path)
        return entry.is_dir if entry else None

    def files(self) -> FoundFiles:
        entry = self._remote.stat(self.path)
        if not entry.is_dir:
            return FoundFiles(files=[self._file("", entry)])
        folders: list[str] = []
        found: list[LocalFile] = []
        todo = [""]
        while todo:
            base = todo.pop()
            for each in self._remote.list(self._at(base)):
                name = f"{base}/{each.name}" if base else each.name
                if each.is_dir:
                    folders.append(name)
                    todo.append(name)
                elif not each.name.endswith(_PART):
                    found.append(self._file(name, each))
        return FoundFiles(sorted(folders), found)

    def size(self, name: str) -> int | None:
        entry = self._remote.find(self._at(name))
        return entry.size if entry and not entry.is_dir else None

    @property
    def compares(self) -> bool:
        return self._remote.is_portal

    def there(self, folder: str) -> dict[str, ThereFile] | None:
        try:
            entries = self._remote.list(self._at(folder))
        except NoSuchPath:
            return None
        return {entry.name: ThereFile(entry.size, entry.modified / 1000) for entry in entries if not entry.is_dir}

    def require_room(self, name: str, size: int) -> None:
        self._remote.require_room(self._at(name), size)

    def path_of(self, name: str) -> str:
        return self._at(name)

    def where(self, name: str) -> str:
        return self._remote.where(self._at(name))

    def read(self, name: str, offset: int, most: int | None) -> Iterator[bytes]:
        return self._remote.read(self._at(name), offset, most)

    def checksum(self, name: str) -> tuple[int, str]:
        return self._remote.checksum(self._at(name))

    def start(self, name: str) -> None:
        self._remote.create(self._at(name), ())

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        self._remote.append(self._at(name), pieces)

    def put(self, name: str, part: str, pieces: Iterator[bytes], *, replace: bool) -> None:
        if self._remote.is_portal:  # which keeps nothing of a write that breaks off
            return self._remote.create_at_once(self._at(name), pieces, replace=replace)
        self._remote.create(self._at(part), pieces)
        self.rename(part, name, replace=replace)

    def unpack(self, tar: Iterable[bytes], *, replace: bool) -> int:
        """Write the files of a tar in one request. Returns how many."""
        return self._remote.unpack(self.path, tar, replace=replace)

    def remove(self, name: str) -> None:
        with suppress(PaiFsError):
            self._remote.delete(self._at(name), recursive=False)

    def rename(self, name: str, target: str, *, replace: bool) -> None:
        if replace and self.size(target) is not None:
            self._remote.delete(self._at(target), recursive=False)
        self._remote.rename(self._at(name), self._at(target))

    def mkdir(self, name: str) -> None:
        self._remote.mkdirs(self._at(name))

    def split(self) -> tuple[RemotePlace, str]:
        folder, _, name = self.path.rpartition("/")
        return RemotePlace(folder or "/", self._remote), name

    def _at(self, name: str) -> str:
        if not name:
            return self.path
        return f"{self.path.rstrip('/')}/{name}"

    def _file(self, name: str, entry: RemoteEntry) -> LocalFile:
        mark = _mark(self.path, name, entry.size, entry.modified)
        return LocalFile(name, entry.size, mark, entry.modified / 1000)


Location = Union[LocalSide, RemotePlace]


def _identity(status: os.stat_result) -> tuple[int, int]:
    """The same for a folder, whichever links lead to it."""
    return status.st_dev, status.st_ino


def _mark(path: str, name: str, size: int, modified: int) -> str:
    text = f"{scope()}\0{path}\0{name}\0{size}\0{modified}"
    return hashlib.sha1(text.encode(errors="surrogateescape"), usedforsecurity=False).hexdigest()[:12]


def refuse_same_side(source: Location, target: Location) -> None:
    if isinstance(source, LocalSide) and isinstance(target, LocalSide):
        raise PaiFsError("Both paths are on this machine. A path in the store begins with hdfs://")
