"""The store in a bucket of an S3-compatible server: Amazon's, MinIO, Ceph and others.

A bucket has no folders, no append and no rename. A folder is an empty object (base/files/store/s3/tree.py); what
changes a part of a file makes a new object, for which the server copies the old bytes by itself; a folder is renamed by
copying all that is in it, which is not one step. A write is one: nobody sees an object before it is whole.

Owner and mode are metadata of the objects. Lists do not have them: ``exact`` asks for each.
"""

from __future__ import annotations

import builtins
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from base.core.errors import BadRequest
from base.core.store_url import Bucket
from base.files.store.base import (
    PART_AGE,
    BadPath,
    Entry,
    PathExists,
    PathNotFound,
    Pick,
    Store,
    StoreUnavailable,
    TreeUsage,
    Writing,
    fill,
    find,
    joined,
    names_of,
    picked,
    require_distinct,
)
from base.files.store.remote import Reading, RecentFolders
from base.files.store.s3.client import BeyondEnd, Server
from base.files.store.s3.tree import Tree, entry_of, marks
from base.files.store.s3.writing import COPIED, LEAST, Upload

_BLOCK = 1 << 18
_NO_OTHER = {"IfNoneMatch": "*"}  # make the object only where there is none


class S3Store(Store):
    def __init__(self, bucket: Bucket) -> None:
        self.server = Server(bucket)
        self._tree = Tree(self.server, bucket.prefix)
        self._folders = RecentFolders(lambda folder, owner: self.mkdirs(folder, owner=owner))

    def open_read(self, path: str, offset: int = 0, known: Entry | None = None) -> BinaryIO:
        key = self._file(path)
        if known and not known.is_dir and offset >= known.size:
            return io.BytesIO()
        part = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            answer = self.server.ask(path, "get_object", key, **part)
        except BeyondEnd:
            return io.BytesIO()
        except PathNotFound:
            if self._is_folder(path):
                raise BadPath(f"{path} is a folder.") from None
            raise
        body, size = answer["Body"], answer["ContentLength"]
        return io.BufferedReader(Reading(path, "S3", body.read, body.close, size), _BLOCK)

    def begin(self, path: str, *, owner: str = "", mode: int = 0o644, overwrite: bool = True) -> Writing:
        key = self._file(path)
        self._folders.ensure(_parent(path), owner)
        if self._is_folder(path):
            raise BadPath(f"{path} is a folder.")
        if overwrite:
            return Upload(self.server, path, key, marks(owner, mode))
        self.refuse(path)
        return Upload(self.server, path, key, marks(owner, mode), _NO_OTHER, lambda: self.refuse(path))

    def begin_append(self, path: str) -> Writing:
        """Makes a new object of the old one's bytes and those that are added. What was added before a failure does not
        stay. Of two that append at once the later is told PathExists."""
        head = self._head(path)
        return self._begun(path, head, head["ContentLength"])

    def truncate(self, path: str, size: int) -> None:
        head = self._head(path)
        if not 0 <= size <= head["ContentLength"]:
            raise BadRequest(f"{path} is no file of at least {size} bytes.")
        fill(self._begun(path, head, size), [])

    def concat(self, path: str, sources: Sequence[str]) -> None:
        require_distinct(path, sources)
        heads = [self._head(source) for source in sources]
        self.append(path, self._contents(sources, heads))
        self._tree.delete(map(self._file, sources), path)

    def mkdirs(self, path: str, *, owner: str = "", mode: int = 0o755) -> None:
        for folder in reversed(self._missing(path)):
            self._mark_folder(folder, marks(owner, mode))

    def change(
        self, path: str, *, owner: str | None = None, mode: int | None = None, modified_at: datetime | None = None
    ) -> None:
        """A server of S3 sets the times itself, so none is set."""
        there = self.stat(path)
        if owner is None and mode is None:
            return
        metadata = marks(owner or there.owner, there.mode if mode is None else mode)
        if not there.is_dir:
            self._copy(path, self._head(path), self._file(path), metadata)
        elif names_of(path):
            self._mark_folder(path, metadata)

    def usage(self, path: str) -> TreeUsage:
        there = self.stat(path)
        if not there.is_dir:
            return TreeUsage(there.size, 1, 0)
        root = self._tree.folder(path)
        size, files, folders = 0, 0, {root}
        for each in self._tree.below(root):
            key, at = each["Key"], len(root)
            while at := key.find("/", at) + 1:
                folders.add(key[:at])
            if not key.endswith("/"):
                size, files = size + each["Size"], files + 1
        return TreeUsage(size, files, len(folders))

    def list(self, path: str, pick: Pick | None = None) -> builtins.list[Entry]:
        root = self._tree.folder(path)
        objects, folders = self._tree.inside(root)
        if not objects and not folders and names_of(path):
            self._head(path)  # PathNotFound
            raise BadPath(f"{path} is a file.")
        base = self._tree.path(root).rstrip("/")
        found = [(self._tree.name_in(root, each["Key"]), each) for each in objects if not each["Key"].endswith("/")]
        files = [entry_of(f"{base}/{name}", item) for name, item in found if name]
        names = {self._tree.name_in(root, key) for key in folders} - {""} - {entry.name for entry in files}
        below = (entry_of(f"{base}/{name}", {}, is_dir=True) for name in names)
        return picked(sorted((*files, *below), key=lambda entry: entry.path), pick)

    def exact(self, entries: Sequence[Entry]) -> builtins.list[Entry]:
        return self._tree.each(self._exact, entries) if entries else []

    def stat(self, path: str) -> Entry:
        plain = joined(names_of(path))
        if plain != "/":
            with suppress(PathNotFound):
                return entry_of(plain, self.server.ask(path, "head_object", self._tree.file(path)))
        root = self._tree.folder(path)
        first = next(self._tree.below(root, most=1), None)
        if first is None and plain != "/":
            raise PathNotFound(f"{path} does not exist.")
        head = {"LastModified": first["LastModified"] if first else datetime.now(UTC)}
        if first and first["Key"] == root and plain != "/":
            with suppress(PathNotFound):
                head = self.server.ask(path, "head_object", root)
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
            self._copy(source, self._head(source), self._tree.file(target))
            self._tree.delete([self._tree.file(source)], source)

    def clean_up(self, age: float = PART_AGE) -> int:
        before, swept = datetime.now(UTC) - timedelta(seconds=age), 0
        for key, upload, at in self._tree.unfinished(self._tree.root):
            if at <= before:
                with suppress(PathNotFound):
                    self.server.ask(key, "abort_multipart_upload", key, UploadId=upload)
                swept += 1
        return swept

    def delete(self, path: str, *, recursive: bool = False) -> None:
        if not names_of(path):
            raise BadPath("The root of the store cannot be deleted.")
        self._folders.forget()
        file, folder = self._file(path), self._tree.folder(path)
        if not recursive and any(each["Key"] != folder for each in self._tree.below(folder, most=2)):
            raise PathExists(f"{path} is not empty.")
        inside = (each["Key"] for each in self._tree.below(folder))
        self._tree.delete(inside if recursive else [folder], path)  # what came meanwhile was not asked for
        self._tree.delete([file], path)

    def refuse(self, path: str) -> None:
        """PathExists when there is a file."""
        with suppress(PathNotFound):
            self._head(path)
            raise PathExists(f"{path} exists already.")

    def _file(self, path: str) -> str:
        key = self._tree.file(path)
        if not names_of(path):
            raise BadPath(f"{path} is a folder.")
        return key

    def _head(self, path: str) -> dict[str, Any]:
        """What the server says of a file. PathNotFound; BadPath of a folder."""
        try:
            answer: dict[str, Any] = self.server.ask(path, "head_object", self._file(path))
            return answer
        except PathNotFound:
            if self._is_folder(path):
                raise BadPath(f"{path} is a folder.") from None
            raise

    def _is_folder(self, path: str) -> bool:
        return not names_of(path) or next(self._tree.below(self._tree.folder(path), most=1), None) is not None

    def _missing(self, path: str) -> builtins.list[str]:
        """The folders that are missing, from ``path`` upwards, the deepest first. BadPath when a file is in the way."""
        names, missing = names_of(path), []
        while names and not self._is_folder(folder := joined(names)):
            there = find(self, folder)
            if there and not there.is_dir:
                raise BadPath(f"{folder} is a file.")
            if there:
                break  # somebody has just made it
            missing.append(folder)
            names.pop()
        return missing

    def _mark_folder(self, path: str, metadata: dict[str, str]) -> None:
        self.server.ask(path, "put_object", self._tree.folder(path), Body=b"", Metadata=metadata)

    def _begun(self, path: str, head: Mapping[str, Any], size: int) -> Upload:
        """A new object that takes the file's place if nobody has changed that, with its first ``size`` bytes."""
        upload = Upload(self.server, path, self._file(path), head["Metadata"], {"IfMatch": head["ETag"]})
        try:
            if size >= LEAST:
                upload.copy({**self.server.object(self._file(path)), "ETag": head["ETag"]}, 0, size)
            elif size:
                with self.open_read(path) as file:
                    upload.add(file.read(size))
        except BaseException:
            upload.drop()
            raise
        if upload.size != size:
            upload.drop()
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
        source = self.server.object(self._file(path))
        if head["ContentLength"] <= COPIED:
            other = {} if metadata is None else {"Metadata": metadata, "MetadataDirective": "REPLACE"}
            self.server.ask(path, "copy_object", key, CopySource=source, CopySourceIfMatch=head["ETag"], **other)
            return
        upload = Upload(self.server, path, key, head["Metadata"] if metadata is None else metadata)
        try:
            upload.copy({**source, "ETag": head["ETag"]}, 0, head["ContentLength"])
            upload.keep()
        finally:
            upload.drop()

    def _rename_folder(self, source: str, target: str) -> None:
        old, new = self._tree.folder(source), self._tree.folder(target)
        keys = [each["Key"] for each in self._tree.below(old)]

        def move(key: str) -> None:
            if key.endswith("/"):
                there = new + key.removeprefix(old)
                self.server.ask(source, "copy_object", there, CopySource=self.server.object(key))
            else:
                path = self._tree.path(key)
                self._copy(path, self._head(path), new + key.removeprefix(old))

        try:
            self._tree.each(move, keys)
        except BaseException:
            self._tree.delete([new + key.removeprefix(old) for key in keys], target)
            raise
        self._tree.delete(keys, source)

    def _exact(self, entry: Entry) -> Entry:
        try:
            there = self.stat(entry.path)
        except PathNotFound:
            return entry
        return replace(entry, owner=there.owner, mode=there.mode, modified_at=there.modified_at)


def _parent(path: str) -> str:
    return joined(names_of(path)[:-1])
