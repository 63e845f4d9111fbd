"""The store in a bucket of an S3-compatible server: Amazon's, MinIO, Ceph and others.

A bucket has no folders, no append and no rename. A folder is an empty object (portal/files/store/s3/keys.py); what
changes a part of a file makes a new object, for which the server copies the old bytes by itself; a folder is renamed by
copying all that is in it, which is not one step. A write is one: nobody sees an object before it is whole.

Owner and mode are metadata of the objects. Lists do not have them: ``exact`` asks for each.
"""

from __future__ import annotations

import builtins
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from portal.core.errors import BadRequest
from portal.core.store_url import Bucket
from portal.files.store.base import (
    PART_AGE,
    BadPath,
    Entry,
    PathExists,
    PathNotFound,
    StoreUnavailable,
    Usage,
    Writing,
    fill,
    find,
    names_of,
)
from portal.files.store.reading import Reading
from portal.files.store.recent_folders import RecentFolders
from portal.files.store.s3.client import BeyondEnd, Server
from portal.files.store.s3.keys import Keys, entry_of, marks
from portal.files.store.s3.tree import Tree
from portal.files.store.s3.writing import COPIED, LEAST, Upload

_BLOCK = 1 << 18
_NO_OTHER = {"IfNoneMatch": "*"}  # make the object only where there is none


class S3Store:
    def __init__(self, bucket: Bucket) -> None:
        self.server = Server(bucket)
        self._keys, self._tree = Keys(bucket.prefix), Tree(self.server)
        self._folders = RecentFolders(lambda folder, owner: self.mkdirs(folder, owner=owner))

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        key = self._file(path)
        if known and not known.is_dir and offset >= known.size:
            return io.BytesIO()
        part = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            with self.server.translated(path):
                answer = self.server.client.get_object(**self._object(key), **part)
        except BeyondEnd:
            return io.BytesIO()
        except PathNotFound:
            if self._is_folder(path):
                raise BadPath(f"{path} is a folder.") from None
            raise
        body, size = answer["Body"], answer["ContentLength"]
        return io.BufferedReader(Reading(path, "S3", body.read, body.close, size), _BLOCK)

    def write(
        self, path: str, chunks: Iterable[bytes], *, owner: str = "", mode: int = 0o644, overwrite: bool = True
    ) -> int:
        return fill(self.begin(path, owner=owner, mode=mode, overwrite=overwrite), chunks)

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        key = self._file(path)
        self._folders.ensure(_parent(path), owner)
        if self._is_folder(path):
            raise BadPath(f"{path} is a folder.")
        writing = _Writing(self, path, Upload(self.server, path, key, marks(owner, mode)), overwrite)
        writing.refuse()
        return writing

    def append(self, path: str, chunks: Iterable[bytes]) -> int:
        return fill(self.begin_append(path), chunks)

    def begin_append(self, path: str) -> Writing:
        """Makes a new object of the old one's bytes and those that are added. What was added before a failure does not
        stay. Of two that append at once the later is told PathExists."""
        head = self._head(path)
        return _Writing(self, path, self._begun(path, head, head["ContentLength"]), True, {"IfMatch": head["ETag"]})

    def truncate(self, path: str, size: int) -> None:
        head = self._head(path)
        if not 0 <= size <= head["ContentLength"]:
            raise BadRequest(f"{path} is no file of at least {size} bytes.")
        with closing(self._begun(path, head, size)) as upload:
            upload.finish({"IfMatch": head["ETag"]})

    def concat(self, path: str, sources: Sequence[str]) -> None:
        files = [self._file(each) for each in (path, *sources)]
        if len(set(files)) < len(files):
            raise BadPath(f"{path} cannot be joined to itself, and each file only once.")
        heads = [self._head(source) for source in sources]
        self.append(path, self._contents(sources, heads))
        self._tree.delete(files[1:], path)

    def mkdirs(self, path: str, *, owner: str = "", mode: int = 0o755) -> None:
        for folder in reversed(self._missing(path)):
            self._mark_folder(folder, marks(owner, mode))

    def change(self, path: str, *, owner: str | None = None, mode: int | None = None) -> None:
        there = self.stat(path)
        given = marks(owner or there.owner, there.mode if mode is None else mode)
        if not there.is_dir:
            self._copy(path, self._head(path), self._file(path), given)
        elif names_of(path):
            self._mark_folder(path, given)

    def usage(self, path: str) -> Usage:
        there = self.stat(path)
        if not there.is_dir:
            return Usage(there.size, 1, 0)
        root = self._keys.folder(path)
        size, files, folders = 0, 0, {root}
        for each in self._tree.below(root):
            key, at = each["Key"], len(root)
            while at := key.find("/", at) + 1:
                folders.add(key[:at])
            if not key.endswith("/"):
                size, files = size + each["Size"], files + 1
        return Usage(size, files, len(folders))

    def list(self, path: str) -> builtins.list[Entry]:
        root = self._keys.folder(path)
        objects, folders = self._tree.inside(root)
        if not objects and not folders and names_of(path):
            self._head(path)  # PathNotFound
            raise BadPath(f"{path} is a file.")
        base = self._keys.path(root).rstrip("/")
        found = [(self._keys.name_in(root, each["Key"]), each) for each in objects if not each["Key"].endswith("/")]
        files = [entry_of(f"{base}/{name}", item) for name, item in found if name]
        names = {self._keys.name_in(root, key) for key in folders} - {""} - {entry.name for entry in files}
        return sorted((*files, *(entry_of(f"{base}/{name}", {}, is_dir=True) for name in names)), key=lambda e: e.path)

    def exact(self, entries: Sequence[Entry]) -> builtins.list[Entry]:
        return self._tree.each(self._exact, entries) if entries else []

    def stat(self, path: str) -> Entry:
        plain = "/" + "/".join(names_of(path))
        if plain != "/":
            with suppress(PathNotFound), self.server.translated(path):
                return entry_of(plain, self.server.client.head_object(**self._object(self._keys.file(path))))
        root = self._keys.folder(path)
        first = next(self._tree.below(root, most=1), None)
        if first is None and plain != "/":
            raise PathNotFound(f"{path} does not exist.")
        head = {"LastModified": first["LastModified"] if first else datetime.now(UTC)}
        if first and first["Key"] == root and plain != "/":
            with suppress(PathNotFound), self.server.translated(path):
                head = self.server.client.head_object(**self._object(root))
        return entry_of(plain, head, is_dir=True)

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self._folders.forget()
        old, new = names_of(source), names_of(target)
        from_there = self.stat(source)
        there = find(self, target)
        if there and not overwrite:
            raise PathExists(f"{target} exists already.")
        if old == new:
            return
        if not old or not new or new[: len(old)] == old or (there and there.is_dir != from_there.is_dir):
            raise BadPath(f"{source} cannot become {target}.")
        if not self._is_folder(_parent(target)):
            raise PathNotFound(f"{_parent(target)} is no folder.")
        if there and there.is_dir:
            self.delete(target)  # PathExists when it is not empty
        if from_there.is_dir:
            self._rename_folder(source, target)
        else:
            self._copy(source, self._head(source), self._keys.file(target))
            self._tree.delete([self._keys.file(source)], source)

    def sweep(self, age: float = PART_AGE) -> int:
        before, swept = datetime.now(UTC) - timedelta(seconds=age), 0
        for key, upload, at in self._tree.unfinished(self._keys.root):
            if at <= before:
                with suppress(PathNotFound), self.server.translated(key):
                    self.server.client.abort_multipart_upload(**self._object(key), UploadId=upload)
                swept += 1
        return swept

    def delete(self, path: str, *, recursive: bool = False) -> None:
        if not names_of(path):
            raise BadPath("The root of the store cannot be deleted.")
        self._folders.forget()
        file, folder = self._file(path), self._keys.folder(path)
        if not recursive and any(each["Key"] != folder for each in self._tree.below(folder, most=2)):
            raise PathExists(f"{path} is not empty.")
        self._tree.delete((each["Key"] for each in self._tree.below(folder)), path)
        self._tree.delete([file], path)

    def refuse(self, path: str) -> None:
        """PathExists when there is a file."""
        with suppress(PathNotFound):
            self._head(path)
            raise PathExists(f"{path} exists already.")

    def _file(self, path: str) -> str:
        key = self._keys.file(path)
        if not names_of(path):
            raise BadPath(f"{path} is a folder.")
        return key

    def _object(self, key: str) -> dict[str, str]:
        return {"Bucket": self.server.bucket, "Key": key}

    def _head(self, path: str) -> dict[str, Any]:
        """What the server says of a file. PathNotFound; BadPath of a folder."""
        try:
            with self.server.translated(path):
                answer: dict[str, Any] = self.server.client.head_object(**self._object(self._file(path)))
                return answer
        except PathNotFound:
            if self._is_folder(path):
                raise BadPath(f"{path} is a folder.") from None
            raise

    def _is_folder(self, path: str) -> bool:
        return not names_of(path) or next(self._tree.below(self._keys.folder(path), most=1), None) is not None

    def _missing(self, path: str) -> builtins.list[str]:
        """The folders that are missing, from ``path`` upwards, the deepest first. BadPath when a file is in the way."""
        names, missing = names_of(path), []
        while names and not self._is_folder(folder := "/" + "/".join(names)):
            there = find(self, folder)
            if there and not there.is_dir:
                raise BadPath(f"{folder} is a file.")
            if there:
                break  # somebody has just made it
            missing.append(folder)
            names.pop()
        return missing

    def _mark_folder(self, path: str, metadata: dict[str, str]) -> None:
        with self.server.translated(path):
            self.server.patient.put_object(**self._object(self._keys.folder(path)), Body=b"", Metadata=metadata)

    def _begun(self, path: str, head: Mapping[str, Any], size: int) -> Upload:
        """A new object in the file's place, with its first ``size`` bytes."""
        upload = Upload(self.server, path, self._file(path), head["Metadata"])
        try:
            if size >= LEAST:
                upload.copy({**self._object(self._file(path)), "ETag": head["ETag"]}, 0, size)
            elif size:
                with self.open_read(path) as file:
                    upload.add(file.read(size))
        except BaseException:
            upload.close()
            raise
        if upload.size != size:
            upload.close()
            raise StoreUnavailable(f"{path} was changed by somebody else meanwhile. Try again.")
        return upload

    def _contents(self, paths: Sequence[str], heads: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
        for path, head in zip(paths, heads, strict=True):
            left = head["ContentLength"]
            with self.open_read(path) as file:
                while data := file.read(_BLOCK):
                    left -= len(data)
                    yield data
            if left:
                raise StoreUnavailable(f"{path} was changed by somebody else meanwhile. Try again.")

    def _copy(self, path: str, head: Mapping[str, Any], key: str, metadata: dict[str, str] | None = None) -> None:
        """Copy a file to ``key``, with other metadata if given."""
        source = self._object(self._file(path))
        if head["ContentLength"] <= COPIED:
            other = {} if metadata is None else {"Metadata": metadata, "MetadataDirective": "REPLACE"}
            with self.server.translated(path):
                self.server.patient.copy_object(
                    **self._object(key), CopySource=source, CopySourceIfMatch=head["ETag"], **other
                )
            return
        with closing(Upload(self.server, path, key, head["Metadata"] if metadata is None else metadata)) as upload:
            upload.copy({**source, "ETag": head["ETag"]}, 0, head["ContentLength"])
            upload.finish({})

    def _rename_folder(self, source: str, target: str) -> None:
        old, new = self._keys.folder(source), self._keys.folder(target)
        found = [each["Key"] for each in self._tree.below(old)]

        def move(key: str) -> None:
            if key.endswith("/"):
                copied = {"CopySource": self._object(key)}
                with self.server.translated(source):
                    self.server.patient.copy_object(**self._object(new + key.removeprefix(old)), **copied)
            else:
                path = self._keys.path(key)
                self._copy(path, self._head(path), new + key.removeprefix(old))

        try:
            self._tree.each(move, found)
        except BaseException:
            self._tree.delete([new + key.removeprefix(old) for key in found], target)
            raise
        self._tree.delete(found, source)

    def _exact(self, entry: Entry) -> Entry:
        try:
            found = self.stat(entry.path)
        except PathNotFound:
            return entry
        return replace(entry, owner=found.owner, mode=found.mode, modified_at=found.modified_at)


class _Writing:
    """A file that is being written, as Writing has it."""

    def __init__(
        self, store: S3Store, path: str, upload: Upload, overwrite: bool, condition: Mapping[str, str] | None = None
    ) -> None:
        self._store, self._path, self._upload, self._overwrite = store, path, upload, overwrite
        self._condition = condition or ({} if overwrite else _NO_OTHER)

    def refuse(self) -> None:
        if not self._overwrite:
            self._store.refuse(self._path)

    def add(self, piece: bytes) -> None:
        self._upload.add(piece)

    def keep(self) -> int:
        self.refuse()
        self._upload.finish(self._condition)
        return self._upload.size

    def drop(self) -> None:
        self._upload.close()


def _parent(path: str) -> str:
    return "/" + "/".join(names_of(path)[:-1])
