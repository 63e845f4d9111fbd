"""The store on HDFS, by WebHDFS: the only module that uses the library ``hdfs``.

The portal acts as HDFS's superuser and gives files their owners. A write goes to a part file, whose length is compared
(HDFS answers 201 also to a write that ran out of room) before it gets its name in one step. A NameNode that did not
answer is left alone for a moment; a DataNode that does not answer says nothing about the others.

The client pai_fs speaks WebHDFS with code of its own, because it imports nothing of the portal.
"""

from __future__ import annotations

import builtins
import io
import json
import math
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO

import requests
from hdfs import HdfsError, InsecureClient
from hdfs.client import _Request
from requests.adapters import HTTPAdapter

from portal.core.errors import BadRequest, LongshoreError
from portal.files.store.base import (
    PART,
    PART_AGE,
    PARTS,
    BadPath,
    Entry,
    PathExists,
    PathNotFound,
    StoreFull,
    StoreUnavailable,
    Usage,
    Writing,
    fill,
    names_of,
)
from portal.files.store.breaker import Breaker
from portal.files.store.datanode import ANSWERS, SENDS, Sending
from portal.files.store.reading import Reading

# Seconds: to connect and to answer. Sending counts as connecting, and a busy DataNode takes its time.
NAMENODE = (3.0, 20.0)
DATANODE = (SENDS, ANSWERS)
REST = 2.0  # seconds that a NameNode is left alone after it did not answer
TOUCH_EVERY = 600.0  # seconds
_CONNECTIONS = 64
_SEEN, _MOST_SEEN = 5.0, 10_000  # seconds for which a folder is assumed to exist, and how many of them are remembered
_BLOCK = 1 << 18

_KINDS: dict[str, type[LongshoreError]] = {
    "FileNotFoundException": PathNotFound,
    "FileAlreadyExistsException": PathExists,
    "PathIsNotEmptyDirectoryException": PathExists,
    "ParentNotDirectoryException": BadPath,
    "PathIsNotDirectoryException": BadPath,
    "InvalidPathException": BadPath,
    "IllegalArgumentException": BadPath,
    "PathComponentTooLongException": BadPath,
    "HadoopIllegalArgumentException": BadRequest,
}


class _Client(InsecureClient):
    _truncate = _Request("POST")

    def resolve(self, hdfs_path: str) -> str:
        """The path as it is: for the library ``#LATEST`` in a name has a meaning."""
        return hdfs_path

    def _request(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        timeout = NAMENODE if self.is_namenode(url) else DATANODE
        headers = {"content-type": "application/octet-stream"}  # HttpFS takes no other
        answer: requests.Response = self._session.request(method, url, timeout=timeout, headers=headers, **kwargs)
        return answer

    def is_namenode(self, url: str) -> bool:
        return any(url.startswith(f"{namenode}/") for namenode in self.urls)


class HdfsStore:
    """``urls``: the HTTP addresses of the NameNode, or of both of a pair (``http://nn1:9870``)."""

    def __init__(self, urls: Sequence[str], user: str) -> None:
        session = requests.Session()
        session.trust_env = False  # a proxy of the environment is for the world outside
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(pool_connections=8, pool_maxsize=_CONNECTIONS))
        self._client = _Client(";".join(urls), user=user, session=session)
        self._seen: dict[str, float] = {}  # folders, and when they were last there
        self._breaker = Breaker(REST, patience=sum(NAMENODE))

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        entry = known or self.stat(path)
        if entry.is_dir:
            raise BadPath(f"{path} is a folder.")
        if offset >= entry.size:
            return io.BytesIO()
        with self._translated(path):
            answer = self._client._open(_plain(path), offset=offset)
        return io.BufferedReader(Reading(path, answer, entry.size - offset), _BLOCK)

    def write(
        self, path: str, chunks: Iterable[bytes], *, owner: str = "", mode: int = 0o644, overwrite: bool = True
    ) -> int:
        return fill(self.begin(path, owner=owner, mode=mode, overwrite=overwrite), chunks)

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        target = _plain(path)
        folder = target.rpartition("/")[0]
        if not overwrite:
            self._refuse(target, overwrite)
        self._make_seldom(folder or "/", owner)
        return _New(self, path, f"{PARTS}/{uuid.uuid4().hex}{PART}", owner, mode, overwrite)

    def _name(self, part: str, target: str, owner: str, overwrite: bool) -> None:
        """Give a part its name. Its folder may have been deleted since it was last looked at."""
        try:
            self._take(part, target, overwrite)
        except LongshoreError:
            self._refuse(target, overwrite)  # raises the error that says why
            self._seen.clear()
            self.mkdirs(target.rpartition("/")[0] or "/", owner=owner)
            self._take(part, target, overwrite)

    def _take(self, part: str, target: str, overwrite: bool) -> None:
        with self._translated(target):
            self._client._rename(part, destination=target, renameoptions="OVERWRITE" if overwrite else "NONE")

    def _make_seldom(self, folder: str, owner: str) -> None:
        """Make the folder, but for many files in one folder only once every few seconds."""
        now = time.monotonic()
        if now - self._seen.get(folder, -math.inf) < _SEEN:
            return
        self.mkdirs(folder, owner=owner)
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        self._seen[folder] = now

    def append(self, path: str, chunks: Iterable[bytes]) -> int:
        return fill(self.begin_append(path), chunks)

    def begin_append(self, path: str) -> Writing:
        before = self.stat(path)
        if before.is_dir:
            raise BadPath(f"{path} is a folder.")
        return _Appended(self, path, _plain(path), self._send(path, _plain(path), append=True), before.size)

    def truncate(self, path: str, size: int) -> None:
        entry = self.stat(path)
        if entry.is_dir or not 0 <= size <= entry.size:
            raise BadRequest(f"{path} is no file of at least {size} bytes.")
        with self._translated(path):
            self._client._truncate(_plain(path), newlength=size)

    def concat(self, path: str, sources: Sequence[str]) -> None:
        files = [_plain(path), *map(_plain, sources)]
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
        missing = self._missing(_plain(path))
        if not missing:
            return
        with self._translated(path):
            self._client._mkdirs(missing[0], permission=f"{mode:o}")
        if owner or mode != 0o755:
            for folder in missing:
                self._mark(folder, owner, mode)

    def sweep(self, age: float = PART_AGE) -> int:
        before = (time.time() - age) * 1000
        try:
            with self._translated(PARTS):
                rows = self._client._list_status(PARTS).json()["FileStatuses"]["FileStatus"]
        except PathNotFound:
            return 0
        old = [row["pathSuffix"] for row in rows if row["modificationTime"] <= before]
        for name in old:
            with self._translated(PARTS):
                self._client.delete(f"{PARTS}/{name}")
        return len(old)

    def list(self, path: str) -> builtins.list[Entry]:
        plain = _plain(path)
        with self._translated(path):
            rows = self._client._list_status(plain).json()["FileStatuses"]["FileStatus"]
        if len(rows) == 1 and not rows[0]["pathSuffix"]:
            raise BadPath(f"{path} is a file.")
        base = plain.rstrip("/")
        found = [_entry(f"{base}/{row['pathSuffix']}", row) for row in rows if not row["pathSuffix"].endswith(PART)]
        return sorted(found, key=lambda entry: entry.path)

    def stat(self, path: str) -> Entry:
        return self._stat(_plain(path))

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self._seen.clear()
        self.stat(source)
        if not overwrite:
            self._refuse(_plain(target), overwrite=False)
        options = "OVERWRITE" if overwrite else "NONE"
        with self._translated(target):
            self._client._rename(_plain(source), destination=_plain(target), renameoptions=options)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        plain = _plain(path)
        if plain == "/":
            raise BadPath("The root of the store cannot be deleted.")
        self._seen.clear()
        with self._translated(path):
            self._client.delete(plain, recursive=recursive)

    def change(self, path: str, *, owner: str | None = None, mode: int | None = None) -> None:
        self._mark(_plain(path), owner or "", mode)

    def usage(self, path: str) -> Usage:
        with self._translated(path):
            content = self._client.content(_plain(path))
        return Usage(content["length"], content["fileCount"], content["directoryCount"])

    def _send(self, path: str, written: str, *, append: bool = False) -> Sending:
        with self._translated(path):
            if append:
                return Sending("POST", self._client._append(written).headers["location"])
            return Sending("PUT", self._client._create(written, overwrite=True, permission="600").headers["location"])

    def _stat(self, path: str) -> Entry:
        with self._translated(path):
            return _entry(path, self._client._get_file_status(path).json()["FileStatus"])

    def _mark(self, path: str, owner: str, mode: int | None) -> None:
        with self._translated(path):
            if owner:
                self._client.set_owner(path, owner=owner)
            if mode is not None:
                self._client.set_permission(path, permission=f"{mode & 0o1777:o}")

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

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        if reason := self._breaker.refusal():
            raise StoreUnavailable(reason)
        try:
            yield
        except HdfsError as error:
            self._breaker.answered()
            raise self._error_of(path, error) from None
        except (requests.RequestException, OSError, ValueError, KeyError, TypeError) as error:
            raise self._unreachable(error) from None
        self._breaker.answered()

    def _error_of(self, path: str, error: HdfsError) -> LongshoreError:
        text = str(error).partition("\n")[0]
        kind = _KINDS.get(error.exception or "")
        if kind is PathNotFound:
            return PathNotFound(f"{path} does not exist.")
        if kind is PathExists:
            return PathExists(f"{path} exists already, or is not empty.")
        if kind is not None:
            return kind(f"{path} cannot be used: {text}")
        if "safe mode" in text or error.exception in ("SafeModeException", "StandbyException", "RetriableException"):
            return StoreUnavailable("The file store (HDFS) takes no changes: it is in safe mode or on standby.")
        if "QuotaExceeded" in (error.exception or ""):
            return StoreFull(f"The file store (HDFS) has no room for {path}: a quota of its own is used up.")
        if error.exception == "AccessControlException":
            return StoreUnavailable("The file store (HDFS) does not let the portal's user (LONGSHORE_STORE_USER) in.")
        if error.exception is None:
            return StoreUnavailable("What answers at LONGSHORE_STORE_URL is no HDFS, or one that is still starting.")
        return StoreUnavailable(f"The file store (HDFS) cannot do that: {text}")

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        request = getattr(error, "request", None)
        if request is not None and not self._client.is_namenode(request.url):
            return StoreUnavailable(f"A DataNode of the file store (HDFS) cannot be reached ({type(error).__name__}).")
        reason = f"The file store (HDFS) cannot be reached ({type(error).__name__})."
        self._breaker.silent(reason)
        return StoreUnavailable(reason)


class _Appended:
    """A file that is being written. ``written`` is its name until then."""

    def __init__(self, store: HdfsStore, path: str, written: str, sending: Sending, size: int) -> None:
        self._store, self._path, self._written, self._sending, self._size = store, path, written, sending, size

    def add(self, piece: bytes) -> None:
        self._sending.add(piece)
        self._size += len(piece)

    def keep(self) -> int:
        """Compares the length, because HDFS answers 201 also to bytes that it had no room for."""
        with self._store._translated(self._path):
            if (said := self._sending.end()) is not None:
                raise _refusal(said)
        self._found = self._store._stat(self._written)
        if self._found.size != self._size:
            raise StoreFull(f"The file store (HDFS) did not keep all of {self._path}: it has no room left.")
        return self._size

    def drop(self) -> None:
        self._sending.close()


class _New(_Appended):
    """A new file, written to a part file that gets its name in one step."""

    def __init__(self, store: HdfsStore, path: str, part: str, owner: str, mode: int, overwrite: bool) -> None:
        super().__init__(store, path, part, store._send(path, part), 0)
        self._owner, self._mode, self._overwrite = owner, mode, overwrite
        self._kept, self._touched = False, time.monotonic()

    def add(self, piece: bytes) -> None:
        """Also dates the file anew now and then: HDFS does that only when it is opened and closed, and ``sweep``
        deletes old parts."""
        if time.monotonic() - self._touched >= TOUCH_EVERY:
            self._touched = time.monotonic()
            with suppress(LongshoreError), self._store._translated(self._written):
                self._store._client.set_times(self._written, modification_time=int(time.time() * 1000))
        super().add(piece)

    def keep(self) -> int:
        size = super().keep()
        owner = self._owner if self._found.owner != self._owner else ""
        self._store._mark(self._written, owner, self._mode if self._found.mode != self._mode else None)
        self._store._name(self._written, _plain(self._path), self._owner, self._overwrite)
        self._kept = True
        return size

    def drop(self) -> None:
        super().drop()
        if not self._kept:
            with suppress(LongshoreError), self._store._translated(self._written):
                self._store._client.delete(self._written)


def _refusal(body: bytes) -> HdfsError:
    try:
        error = json.loads(body)["RemoteException"]
        return HdfsError(error["message"], exception=error["exception"])
    except (ValueError, KeyError, TypeError):
        return HdfsError(body.decode(errors="replace"))


def _plain(path: str) -> str:
    """``/a/b``. HDFS takes no colon, and its DataNode decodes a per cent sign twice."""
    names = names_of(path)
    if any(":" in name or "%" in name for name in names):
        raise BadPath(f"{path}: HDFS takes no colon and no per cent sign in a name.")
    return "/" + "/".join(names)


def _entry(path: str, row: dict[str, Any]) -> Entry:
    is_dir = row["type"] == "DIRECTORY"
    return Entry(
        path=path or "/",
        is_dir=is_dir,
        size=0 if is_dir else row["length"],
        modified_at=datetime.fromtimestamp(row["modificationTime"] / 1000, UTC),
        owner=row["owner"],
        group=row["group"],
        mode=int(row["permission"], 8),
    )
