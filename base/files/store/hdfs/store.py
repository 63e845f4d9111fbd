"""The store on HDFS, by WebHDFS. The portal acts as HDFS's superuser and gives files their owners.

The client pai_fs speaks WebHDFS with code of its own, because it imports nothing of the portal.
"""

from __future__ import annotations

import builtins
import io
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, BinaryIO

from base.core.errors import BadRequest, LongshoreError
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
    TreeUsage,
    Writing,
    fill,
    picked,
)
from base.files.store.hdfs.client import NameNode, Sending, entry_of, plain, refusal
from base.files.store.remote import Reading, RecentFolders

_BLOCK = 1 << 18
_TOUCH_EVERY = 600.0  # seconds


class HdfsStore(Store):
    """``urls``: the HTTP addresses of the NameNode, or of both of a pair (``http://nn1:9870``)."""

    def __init__(self, urls: Sequence[str], user: str) -> None:
        self.namenode = NameNode(urls, user)
        self._folders = RecentFolders(lambda folder, owner: self.mkdirs(folder, owner=owner))
        # Closed to all others, so that a part can have the mode of its file from the first
        self._parts = RecentFolders(lambda folder, _: self.namenode.ask(folder, "_mkdirs", folder, permission="700"))

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        entry = known or self.stat(path)
        if entry.is_dir:
            raise BadPath(f"{path} is a folder.")
        if offset >= entry.size:
            return io.BytesIO()
        answer = self.namenode.ask(path, "_open", plain(path), offset=offset)
        return io.BufferedReader(Reading(path, "HDFS", answer.raw.read, answer.close, entry.size - offset), _BLOCK)

    def write(
        self, path: str, chunks: Iterable[bytes], *, owner: str = "", mode: int = 0o644, overwrite: bool = True
    ) -> int:
        """What may not be replaced refuses when the part gets its name: to look before costs a small file a sixth."""
        return fill(self._new(path, owner, mode, overwrite), chunks)

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        if not overwrite:
            self._refuse(plain(path), overwrite)
        return self._new(path, owner, mode, overwrite)

    def _new(self, path: str, owner: str, mode: int, overwrite: bool) -> New:
        self._folders.ensure(plain(path).rpartition("/")[0] or "/", owner)
        self._parts.ensure(PARTS, "")
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

    def _take(self, source: str, target: str, overwrite: bool) -> None:
        options = "OVERWRITE" if overwrite else "NONE"
        self.namenode.ask(target, "_rename", source, destination=target, renameoptions=options)

    def begin_append(self, path: str) -> Writing:
        before = self.stat(path)
        if before.is_dir:
            raise BadPath(f"{path} is a folder.")
        return Appended(self, path, plain(path), self.send(path, plain(path)), before.size)

    def truncate(self, path: str, size: int) -> None:
        entry = self.stat(path)
        if entry.is_dir or not 0 <= size <= entry.size:
            raise BadRequest(f"{path} is no file of at least {size} bytes.")
        self.namenode.ask(path, "_truncate", plain(path), newlength=size)

    def mkdirs(self, path: str, *, owner: str = "", mode: int = 0o755) -> None:
        missing = self._missing(plain(path))
        if not missing:
            return
        self.namenode.ask(path, "_mkdirs", missing[0], permission=f"{mode:o}")
        if owner or mode != 0o755:
            for folder in missing:
                self.mark(folder, owner, mode)

    def clean_up(self, age: float = PART_AGE) -> int:
        before = (time.time() - age) * 1000
        try:
            rows = self._rows(PARTS)
        except PathNotFound:
            return 0
        old = [row["pathSuffix"] for row in rows if row["modificationTime"] <= before]
        for name in old:
            self.namenode.ask(PARTS, "delete", f"{PARTS}/{name}")
        return len(old)

    def list(self, path: str, pick: Pick | None = None) -> builtins.list[Entry]:
        there = plain(path)
        rows = self._rows(there)
        if len(rows) == 1 and not rows[0]["pathSuffix"]:
            raise BadPath(f"{path} is a file.")
        base = there.rstrip("/")
        entries = [entry_of(f"{base}/{row['pathSuffix']}", row) for row in rows if not row["pathSuffix"].endswith(PART)]
        return picked(sorted(entries, key=lambda entry: entry.path), pick)

    def stat(self, path: str) -> Entry:
        return self.entry_at(plain(path))

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self._folders.forget()
        self.stat(source)
        if not overwrite:
            self._refuse(plain(target), overwrite=False)
        self._take(plain(source), plain(target), overwrite)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        there = plain(path)
        if there == "/":
            raise BadPath("The root of the store cannot be deleted.")
        self._folders.forget()
        self.namenode.ask(path, "delete", there, recursive=recursive)

    def change(
        self, path: str, *, owner: str | None = None, mode: int | None = None, modified_at: datetime | None = None
    ) -> None:
        self.mark(plain(path), owner or "", mode)
        if modified_at is not None:
            milliseconds = round(modified_at.timestamp() * 1000)
            self.namenode.ask(path, "_set_times", plain(path), modificationtime=milliseconds)

    def usage(self, path: str) -> TreeUsage:
        content = self.namenode.ask(path, "content", plain(path))
        return TreeUsage(content["length"], content["fileCount"], content["directoryCount"])

    def send(self, path: str, written: str, mode: int | None = None) -> Sending:
        """Begin a new file of this mode; None adds to one that is there."""
        client = self.namenode.client
        with self.namenode.translated(path):
            if mode is None:
                return Sending("POST", client._append(written).headers["location"])
            return Sending("PUT", client._create(written, overwrite=True, permission=f"{mode:o}").headers["location"])

    def entry_at(self, path: str) -> Entry:
        with self.namenode.translated(path):
            return entry_of(path, self.namenode.client._get_file_status(path).json()["FileStatus"])

    def mark(self, path: str, owner: str, mode: int | None) -> None:
        if owner:
            self.namenode.ask(path, "set_owner", path, owner=owner)
        if mode is not None:
            self.namenode.ask(path, "set_permission", path, permission=f"{mode & 0o1777:o}")

    def _rows(self, folder: str) -> builtins.list[dict[str, Any]]:
        """What HDFS says of each entry of a folder, or of a file."""
        with self.namenode.translated(folder):
            rows: list[dict[str, Any]] = self.namenode.client._list_status(folder).json()["FileStatuses"]["FileStatus"]
            return rows

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


class Appended:
    """A file that is being written. ``written`` is its name until then."""

    def __init__(self, store: HdfsStore, path: str, written: str, sending: Sending, size: int) -> None:
        self._store, self._path, self._written, self._sending, self._size = store, path, written, sending, size

    def add(self, piece: bytes) -> None:
        self._sending.add(piece)
        self._size += len(piece)

    def keep(self) -> int:
        """Compares the length, because HDFS answers 201 also to bytes that it had no room for."""
        with self._store.namenode.translated(self._path):
            if (said := self._sending.end()) is not None:
                raise refusal(said)
        self._found = self._store.entry_at(self._written)
        if self._found.size != self._size:
            raise StoreFull(f"The file store (HDFS) did not keep all of {self._path}: it has no room left.")
        return self._size

    def drop(self) -> None:
        self._sending.close()


class New(Appended):
    """A new file, written to a part file that gets its name in one step."""

    def __init__(self, store: HdfsStore, path: str, part: str, owner: str, mode: int, overwrite: bool) -> None:
        super().__init__(store, path, part, store.send(path, part, mode), 0)
        self._owner, self._mode, self._overwrite = owner, mode, overwrite
        self._kept, self._touched = False, time.monotonic()

    def add(self, piece: bytes) -> None:
        """Also dates the file anew now and then: HDFS does that only when it is opened and closed, and ``clean_up``
        deletes old parts."""
        if time.monotonic() - self._touched >= _TOUCH_EVERY:
            self._touched = time.monotonic()
            with suppress(LongshoreError):
                now = int(time.time() * 1000)
                self._store.namenode.ask(self._written, "set_times", self._written, modification_time=now)
        super().add(piece)

    def keep(self) -> int:
        size = super().keep()
        owner = self._owner if self._found.owner != self._owner else ""
        self._store.mark(self._written, owner, self._mode if self._found.mode != self._mode else None)
        self._store.give_name(self._written, plain(self._path), self._owner, self._overwrite)
        self._kept = True
        return size

    def drop(self) -> None:
        super().drop()
        if not self._kept:
            with suppress(LongshoreError):
                self._store.namenode.ask(self._written, "delete", self._written)
