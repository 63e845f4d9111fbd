"""A place on either side: what a path on the command line names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from portal.pai_fs.errors import NotFound, PaiFsError
from portal.pai_fs.remote import PIECE, Entry, Remote

SCHEME = "hdfs://"
_PART = ".pai-fs-part"


@dataclass(frozen=True, slots=True)
class File:
    """One file to copy. ``name`` is relative to what was asked for; ``mark`` changes when its content may have."""

    name: str
    size: int
    mark: str


class Place(Protocol):
    """A path, there or not. Names below it are relative, in POSIX form; empty is the path itself."""

    path: str

    def is_dir(self) -> bool | None:
        """None when there is nothing."""
        ...

    def files(self) -> tuple[list[str], list[File]]:
        """All folders and files below it."""
        ...

    def size(self, name: str) -> int | None: ...

    def read(self, name: str, offset: int) -> Iterator[bytes]: ...

    def start(self, name: str) -> None:
        """Make an empty file, and the folders above it."""
        ...

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        """To its end; what arrived before a failure may stay."""
        ...

    def put(self, name: str, pieces: Iterator[bytes]) -> None:
        """All of it at once, in place of what is there."""
        ...

    def rename(self, name: str, target: str) -> None:
        """In place of what is there."""
        ...

    def mkdir(self, name: str) -> None: ...

    def split(self) -> tuple[Place, str]:
        """The folder it is in, and its name there."""
        ...


def part_of(name: str, mark: str) -> str:
    """What a file is called while it is being copied; another mark, another beginning."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}.{base}.{mark}{_PART}"


def place(text: str, remote: Remote) -> Place:
    """``hdfs://a/b`` counts from the root and has no host; anything else is local."""
    if text.startswith(SCHEME):
        return Far("/" + text.removeprefix(SCHEME).strip("/"), remote)
    return Near(text)


class Near:
    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"

    def is_dir(self) -> bool | None:
        return os.path.isdir(self.path) if os.path.exists(self.path) else None

    def files(self) -> tuple[list[str], list[File]]:
        if not os.path.isdir(self.path):
            return [], [self._file("")]
        folders, found = [], []
        for folder, below, names in os.walk(self.path):
            base = os.path.relpath(folder, self.path)
            base = "" if base == "." else base + "/"
            folders += [base + name for name in below]
            found += [self._file(base + name) for name in names]
        return folders, found

    def size(self, name: str) -> int | None:
        try:
            return self._at(name).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str, offset: int) -> Iterator[bytes]:
        with self._at(name).open("rb") as file:
            file.seek(offset)
            while data := file.read(PIECE):
                yield data

    def start(self, name: str) -> None:
        self._at(name).parent.mkdir(parents=True, exist_ok=True)
        self._at(name).write_bytes(b"")

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        with self._at(name).open("ab") as file:
            for data in pieces:
                file.write(data)

    def put(self, name: str, pieces: Iterator[bytes]) -> None:
        part = f"{name}{_PART}"
        self.start(part)
        self.add(part, pieces)
        self.rename(part, name)

    def rename(self, name: str, target: str) -> None:
        self._at(name).replace(self._at(target))

    def mkdir(self, name: str) -> None:
        self._at(name).mkdir(parents=True, exist_ok=True)

    def split(self) -> tuple[Near, str]:
        folder, name = os.path.split(os.path.abspath(self.path))
        return Near(folder), name

    def _at(self, name: str) -> Path:
        return Path(self.path, name) if name else Path(self.path)

    def _file(self, name: str) -> File:
        try:
            status = self._at(name).stat()
        except FileNotFoundError:
            raise NotFound(f"{self.path} does not exist.") from None
        return File(name, status.st_size, _mark(self.path, name, status.st_size, status.st_mtime_ns))


class Far:
    def __init__(self, path: str, remote: Remote) -> None:
        self.path = path
        self._remote = remote

    def is_dir(self) -> bool | None:
        entry = self._remote.find(self.path)
        return entry.is_dir if entry else None

    def files(self) -> tuple[list[str], list[File]]:
        entry = self._remote.stat(self.path)
        if not entry.is_dir:
            return [], [self._file("", entry)]
        folders: list[str] = []
        found: list[File] = []
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
        return sorted(folders), found

    def size(self, name: str) -> int | None:
        entry = self._remote.find(self._at(name))
        return entry.size if entry and not entry.is_dir else None

    def read(self, name: str, offset: int) -> Iterator[bytes]:
        return self._remote.read(self._at(name), offset)

    def start(self, name: str) -> None:
        self._remote.create(self._at(name), (), overwrite=True)

    def add(self, name: str, pieces: Iterator[bytes]) -> None:
        self._remote.append(self._at(name), pieces)

    def put(self, name: str, pieces: Iterator[bytes]) -> None:
        self._remote.create(self._at(name), pieces, overwrite=True)

    def rename(self, name: str, target: str) -> None:
        if self.size(target) is not None:
            self._remote.delete(self._at(target), recursive=False)
        self._remote.rename(self._at(name), self._at(target))

    def mkdir(self, name: str) -> None:
        self._remote.mkdirs(self._at(name))

    def split(self) -> tuple[Far, str]:
        folder, _, name = self.path.rpartition("/")
        return Far(folder or "/", self._remote), name

    def _at(self, name: str) -> str:
        if not name:
            return self.path
        return f"{self.path.rstrip('/')}/{name}"

    def _file(self, name: str, entry: Entry) -> File:
        return File(name, entry.size, _mark(self.path, name, entry.size, entry.modified))


def _mark(path: str, name: str, size: int, modified: int) -> str:
    return hashlib.sha1(f"{path}\0{name}\0{size}\0{modified}".encode(), usedforsecurity=False).hexdigest()[:12]


def refuse_same_side(source: Place, target: Place) -> None:
    if isinstance(source, Near) and isinstance(target, Near):
        raise PaiFsError("Both paths are on this machine. A path in the store begins with hdfs://")
