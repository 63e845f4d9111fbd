"""Makes a tree of a bucket's keys: what is in a folder and below it, and what is done to all of that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from portal.files.store.base import StoreUnavailable
from portal.files.store.s3.client import Server

_PAGE = 1000  # keys in one answer
_AT_ONCE = 16  # requests to the server, of one caller
_DELETED = 1000  # keys in one request
_NO_XML = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in a key that no list of XML can have
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Tree:
    def __init__(self, server: Server) -> None:
        self._server = server

    def below(self, folder: str, most: int = 0) -> Iterator[dict[str, Any]]:
        """The objects whose keys begin with ``folder``: Key, Size, LastModified, ETag. ``most``: so many at most."""
        for page in self._pages(folder, MaxKeys=most or _PAGE):
            yield from page.get("Contents", ())
            if most:
                return

    def inside(self, folder: str) -> tuple[list[dict[str, Any]], list[str]]:
        """What is right in the folder: objects, its own marker among them, and the keys of folders."""
        objects, folders = [], []
        for page in self._pages(folder, Delimiter="/", MaxKeys=_PAGE):
            objects += page.get("Contents", ())
            folders += [each["Prefix"] for each in page.get("CommonPrefixes", ())]
        return objects, folders

    def delete(self, keys: Iterable[str], path: str) -> None:
        """Delete objects, also those that are gone. ``path`` is for errors."""
        for some in _batches(keys, _DELETED):
            for key in filter(_NO_XML.search, some):
                with self._server.translated(path):
                    self._server.client.delete_object(Bucket=self._server.bucket, Key=key)
            if listed := [{"Key": key} for key in some if not _NO_XML.search(key)]:
                with self._server.translated(path):
                    answer = self._server.client.delete_objects(
                        Bucket=self._server.bucket, Delete={"Objects": listed, "Quiet": True}
                    )
                if answer.get("Errors"):
                    raise StoreUnavailable(f"The file store (S3) did not delete all of {path}. Try again.")

    def each(self, act: Callable[[_In], _Out], values: Iterable[_In]) -> list[_Out]:
        """``act`` of all values, several at once, in their order. The first error is raised when all have ended."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="s3") as pool:
            return list(pool.map(act, values))

    def unfinished(self, folder: str) -> Iterator[tuple[str, str, datetime]]:
        """Uploads that were begun and not ended: key, id, and when the last part came."""
        more: dict[str, str] = {}
        while True:
            with self._server.translated("/"):
                page = self._server.client.list_multipart_uploads(Bucket=self._server.bucket, Prefix=folder, **more)
            for each in page.get("Uploads", ()):
                yield each["Key"], each["UploadId"], max(each["Initiated"], *self._parts(each["Key"], each["UploadId"]))
            if not page.get("IsTruncated"):
                return
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _parts(self, key: str, upload: str) -> list[datetime]:
        with self._server.translated(key):
            answer = self._server.client.list_parts(Bucket=self._server.bucket, Key=key, UploadId=upload)
        return [part["LastModified"] for part in answer.get("Parts", ())]

    def _pages(self, prefix: str, **more: Any) -> Iterator[dict[str, Any]]:
        while True:
            with self._server.translated(prefix):
                page = self._server.client.list_objects_v2(Bucket=self._server.bucket, Prefix=prefix, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more["ContinuationToken"] = page["NextContinuationToken"]


def _batches(keys: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
