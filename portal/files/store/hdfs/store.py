"""The store on HDFS, by WebHDFS. The portal acts as HDFS's superuser and gives files their owners.

The client pai_fs speaks WebHDFS with code of its own, because it imports nothing of the portal.
"""

from __future__ import annotations

import builtins
import io
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import BinaryIO

from portal.core.errors import BadRequest, LongshoreError
from portal.files.store.base import (
    PART,
    PART_AGE,
    PARTS,
    BadPath,
    Entry,
    PathExists,
    PathNotFound,
    Usage,
    Writing,
    fill,
)
from portal.files.store.hdfs.client import NameNode
from portal.files.store.hdfs.datanode import Sending
from portal.files.store.hdfs.paths import entry_of, plain
from portal.files.store.hdfs.writing import Appended, New
from portal.files.store.reading import Reading
from portal.files.store.recent_folders import RecentFolders

_BLOCK = 1 << 18


class HdfsStore:
    """``urls``: the HTTP addresses of the NameNode, or of both of a pair (``http://nn1:9870``)."""

    def __init__(self, urls: Sequence[str], user: str) -> None:
        self.namenode = NameNode(urls, user)
        self._folders = RecentFolders(lambda folder, owner: self.mkdirs(folder, owner=owner))

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        entry = known or self.stat(path)
        if entry.is_dir:
            raise BadPath(f"{path} is a folder.")
        if offset >= entry.size:
            return io.BytesIO()
        with self.namenode.translated(path):
            answer = self.namenode.client._open(plain(path), offset=offset)
        return io.BufferedReader(Reading(path, "HDFS", answer.raw.read, answer.close, entry.size - offset), _BLOCK)

    def write(
        self, path: str, chunks: Iterable[bytes], *, owner: str = "", mode: int = 0o644, overwrite: bool = True
    ) -> int:
        return fill(self.begin(path, owner=owner, mode=mode, overwrite=overwrite), chunks)

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        target = plain(path)
        folder = target.rpartition("/")[0]
        if not overwrite:
            self._refuse(target, overwrite)
        self._folders.ensure(folder or "/", owner)
        return New(self, path, f"{PARTS}/{uuid.uuid4().hex}{PART}", owner, mode, overwrite)

    def give_name(self, part: str, target: str, owner: str, overwrite: bool) -> None:
        """Give a part its name. Its folder may have been deleted since it was last looked at."""
        try:
            self._take(part, target, overwrite)
        except LongshoreError:
            self._refuse(target, overwrite)  # raises the error that says why
            self._folders.forget()
            self.mkdirs(target.rpartition("/")[0] or "/", owner=owner)
            self._take(part, target, overwrite)

    def _take(self, part: str, target: str, overwrite: bool) -> None:
        with self.namenode.translated(target):
            self.namenode.client._rename(part, destination=target, renameoptions="OVERWRITE" if overwrite else "NONE")

    def append(self, path: str, chunks: Iterable[bytes]) -> int:
        return fill(self.begin_append(path), chunks)

    def begin_append(self, path: str) -> Writing:
        before = self.stat(path)
        if before.is_dir:
            raise BadPath(f"{path} is a folder.")
        return Appended(self, path, plain(path), self.send(path, plain(path), append=True), before.size)

    def truncate(self, path: str, size: int) -> None:
        entry = self.stat(path)
        if entry.is_dir or not 0 <= size <= entry.size:
            raise BadRequest(f"{path} is no file of at least {size} bytes.")
        with self.namenode.translated(path):
            self.namenode.client._truncate(plain(path), newlength=size)

    def concat(self, path: str, sources: Sequence[str]) -> None:
        files = [plain(path), *map(plain, sources)]
        if len(set(files)) < len(files):
            raise BadPath(f"{path} cannot be joined to itself, and each file only once.")
        for source in sources:
            if self.stat(source).is_dir:
                raise BadPath(f"{source} is a folder.")
        for source in sources:  # HDFS's own concat wants full blocks and one folder
            with closing(self.open_read(source)) as file:
                self.append(path, iter(lambda file=file: file.read(_BLOCK), b""))  # type: ignore[misc]
            self.delete(source)

    def mkdirs(self, path: str, *, owner: str = "", mode: int = 0o755) -> None:
        missing = self._missing(plain(path))
        if not missing:
            return
        with self.namenode.translated(path):
            self.namenode.client._mkdirs(missing[0], permission=f"{mode:o}")
        if owner or mode != 0o755:
            for folder in missing:
                self.mark(folder, owner, mode)

    def sweep(self, age: float = PART_AGE) -> int:
        before = (time.time() - age) * 1000
        try:
            with self.namenode.translated(PARTS):
                rows = self.namenode.client._list_status(PARTS).json()["FileStatuses"]["FileStatus"]
        except PathNotFound:
            return 0
        old = [row["pathSuffix"] for row in rows if row["modificationTime"] <= before]
        for name in old:
            with self.namenode.translated(PARTS):
                self.namenode.client.delete(f"{PARTS}/{name}")
        return len(old)

    def list(self, path: str) -> builtins.list[Entry]:
        there = plain(path)
        with self.namenode.translated(path):
            rows = self.namenode.client._list_status(there).json()["FileStatuses"]["FileStatus"]
        if len(rows) == 1 and not rows[0]["pathSuffix"]:
            raise BadPath(f"{path} is a file.")
        base = there.rstrip("/")
        found = [entry_of(f"{base}/{row['pathSuffix']}", row) for row in rows if not row["pathSuffix"].endswith(PART)]
        return sorted(found, key=lambda entry: entry.path)

    def exact(self, entries: Sequence[Entry]) -> builtins.list[Entry]:
        return [*entries]

    def stat(self, path: str) -> Entry:
        return self.entry_at(plain(path))

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self._folders.forget()
        self.stat(source)
        if not overwrite:
            self._refuse(plain(target), overwrite=False)
        options = "OVERWRITE" if overwrite else "NONE"
        with self.namenode.translated(target):
            self.namenode.client._rename(plain(source), destination=plain(target), renameoptions=options)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        there = plain(path)
        if there == "/":
            raise BadPath("The root of the store cannot be deleted.")
        self._folders.forget()
        with self.namenode.translated(path):
            self.namenode.client.delete(there, recursive=recursive)

    def change(self, path: str, *, owner: str | None = None, mode: int | None = None) -> None:
        self.mark(plain(path), owner or "", mode)

    def usage(self, path: str) -> Usage:
        with self.namenode.translated(path):
            content = self.namenode.client.content(plain(path))
        return Usage(content["length"], content["fileCount"], content["directoryCount"])

    def send(self, path: str, written: str, *, append: bool = False) -> Sending:
        client = self.namenode.client
        with self.namenode.translated(path):
            if append:
                return Sending("POST", client._append(written).headers["location"])
            return Sending("PUT", client._create(written, overwrite=True, permission="600").headers["location"])

    def entry_at(self, path: str) -> Entry:
        with self.namenode.translated(path):
            return entry_of(path, self.namenode.client._get_file_status(path).json()["FileStatus"])

    def mark(self, path: str, owner: str, mode: int | None) -> None:
        with self.namenode.translated(path):
            if owner:
                self.namenode.client.set_owner(path, owner=owner)
            if mode is not None:
                self.namenode.client.set_permission(path, permission=f"{mode & 0o1777:o}")

    def _refuse(self, target: str, overwrite: bool) -> None:
        """BadPath when a folder is in the place of the file, PathExists when a file may not be replaced."""
        try:
            there = self.stat(target)
        except PathNotFound:
            return
        if not overwrite:
            raise PathExists(f"{target} exists already.")
        if there.is_dir:
            raise BadPath(f"{target} is a folder.")

    def _missing(self, path: str) -> builtins.list[str]:
        """The folders that are missing, from ``path`` upwards, the deepest first. BadPath when a file is in the way."""
        missing = []
        while path not in ("", "/"):
            try:
                if not self.stat(path).is_dir:
                    raise BadPath(f"{path} is a file.")
                break
            except PathNotFound:
                missing.append(path)
                path = path.rpartition("/")[0]
        return missing
