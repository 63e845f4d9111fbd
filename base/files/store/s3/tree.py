"""Makes a tree of a bucket's keys: paths as keys and back, what is in a folder and below it, and what is done to all of
that.

``/a/file`` is the object ``a/file`` below the store's prefix. ``/a`` is a folder when there is an empty object ``a/``,
as the tools for S3 write it too, or any object whose key begins so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from base.files.store.base import PART, BadPath, Entry, StoreUnavailable, names_of
from base.files.store.rules import owner_by_name
from base.files.store.s3.client import Server

LONGEST = 1024  # bytes of a key
NEVER = datetime.fromtimestamp(0, UTC)  # of a folder in a list: S3 does not tell
_PAGE = 1000  # keys in one answer
_AT_ONCE = 16  # requests to the server, of one caller
_DELETED = 1000  # keys in one request
_NO_XML = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in a key that no list of XML can have
_In = TypeVar("_In")
_Out = TypeVar("_Out")


def marks(owner: str, mode: int) -> dict[str, str]:
    """Owner and mode as an object's metadata, whose values are ASCII."""
    return {"mode": f"{mode & 0o1777:o}", **({"owner": quote(owner, safe="")} if owner else {})}


def entry_of(path: str, head: Mapping[str, Any], *, is_dir: bool = False) -> Entry:
    """``head``: the answer to HeadObject or GetObject, or an item of a list, which has no metadata."""
    marks = head.get("Metadata", {})
    mode = marks.get("mode", "")
    is_mode = mode.isascii() and mode.isdigit() and not set(mode) & {"8", "9"}
    return Entry(
        path=path,
        is_dir=is_dir,
        size=0 if is_dir else head.get("ContentLength", head.get("Size", 0)),
        modified_at=head.get("LastModified", NEVER),
        owner=unquote(marks.get("owner", "")) or owner_by_name(path) or "root",
        group="supergroup",
        mode=int(mode, 8) & 0o1777 if is_mode else 0o755 if is_dir else 0o644,
    )


class Tree:
    """``prefix``: empty, or ``team/longshore``."""

    def __init__(self, server: Server, prefix: str) -> None:
        self._server = server
        self.root = f"{prefix.strip('/')}/".lstrip("/")

    def file(self, path: str) -> str:
        """Return the key of a file. Raises BadPath."""
        key = self.root + "/".join(names_of(path))
        if len(key.encode()) >= LONGEST:
            raise BadPath(f"The path begins with {path[:40]!r} and is longer than an S3 store takes.")
        return key

    def folder(self, path: str) -> str:
        """The key of a folder, with which those of all below it begin; that of the root may be empty."""
        return f"{key}/" if (key := self.file(path)) != self.root else key

    def path(self, key: str) -> str:
        """Return the path of a file's or a folder's key."""
        return "/" + key.removeprefix(self.root).rstrip("/")

    def name_in(self, folder: str, key: str) -> str:
        """The name that a key has in a folder; empty for keys that other programs made and that are no path here."""
        name = key.removeprefix(folder).removesuffix("/")
        is_name = name and "/" not in name and name not in (".", "..") and "\0" not in name
        return name if is_name and not name.endswith(PART) and len(name.encode()) <= 255 else ""

    def below(self, folder: str, most: int = 0) -> Iterator[dict[str, Any]]:
        """The objects whose keys begin with ``folder``: Key, Size, LastModified, ETag. ``most``: so many at most."""
        for page in self._pages("list_objects_v2", folder, MaxKeys=most or _PAGE):
            yield from page.get("Contents", ())
            if most:
                return

    def inside(self, folder: str) -> tuple[list[dict[str, Any]], list[str]]:
        """What is right in the folder: objects, its own marker among them, and the keys of folders."""
        objects, folders = [], []
        for page in self._pages("list_objects_v2", folder, Delimiter="/", MaxKeys=_PAGE):
            objects += page.get("Contents", ())
            folders += [each["Prefix"] for each in page.get("CommonPrefixes", ())]
        return objects, folders

    def delete(self, keys: Iterable[str], path: str) -> None:
        """Delete objects, also those that are gone. ``path`` is for errors."""
        left = iter(keys)
        while some := list(islice(left, _DELETED)):
            for key in filter(_NO_XML.search, some):
                self._server.ask(path, "delete_object", key)
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
        for page in self._pages("list_multipart_uploads", folder):
            for each in page.get("Uploads", ()):
                yield each["Key"], each["UploadId"], max(each["Initiated"], *self._parts(each["Key"], each["UploadId"]))

    def _parts(self, key: str, upload: str) -> list[datetime]:
        answer = self._server.ask(key, "list_parts", key, UploadId=upload)
        return [part["LastModified"] for part in answer.get("Parts", ())]

    def _pages(self, question: str, prefix: str, **more: Any) -> Iterator[dict[str, Any]]:
        pages = iter(
            self._server.client.get_paginator(question).paginate(Bucket=self._server.bucket, Prefix=prefix, **more)
        )
        while True:
            with self._server.translated(prefix or "/"):
                page = next(pages, None)
            if page is None:
                return
            yield page
