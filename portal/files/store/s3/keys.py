"""Paths of the store as keys in a bucket, and back. Pure.

``/a/file`` is the object ``a/file`` below the store's prefix. ``/a`` is a folder when there is an empty object ``a/``,
as the tools for S3 write it too, or any object whose key begins so.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from portal.files.store.base import PART, BadPath, Entry, names_of
from portal.files.store.rules import owner_by_name

LONGEST = 1024  # bytes of a key
NEVER = datetime.fromtimestamp(0, UTC)  # of a folder in a list: S3 does not tell


class Keys:
    """``prefix``: empty, or ``team/longshore``."""

    def __init__(self, prefix: str) -> None:
        self.root = f"{prefix.strip('/')}/".lstrip("/")

    def file(self, path: str) -> str:
        """The key of a file. Raises BadPath."""
        key = self.root + "/".join(names_of(path))
        if len(key.encode()) >= LONGEST:
            raise BadPath(f"The path begins with {path[:40]!r} and is longer than an S3 store takes.")
        return key

    def folder(self, path: str) -> str:
        """The key of a folder, with which those of all below it begin; that of the root may be empty."""
        return f"{key}/" if (key := self.file(path)) != self.root else key

    def path(self, key: str) -> str:
        """The path of a file's or a folder's key."""
        return "/" + key.removeprefix(self.root).rstrip("/")

    def name_in(self, folder: str, key: str) -> str:
        """The name that a key has in a folder; empty for keys that other programs made and that are no path here."""
        name = key.removeprefix(folder).removesuffix("/")
        is_name = name and "/" not in name and name not in (".", "..") and "\0" not in name
        return name if is_name and not name.endswith(PART) and len(name.encode()) <= 255 else ""


def marks(owner: str, mode: int) -> dict[str, str]:
    """Owner and mode as an object's metadata, whose values are ASCII."""
    return {"mode": f"{mode & 0o1777:o}", **({"owner": quote(owner, safe="")} if owner else {})}


def entry_of(path: str, head: Mapping[str, Any], *, is_dir: bool = False) -> Entry:
    """``head``: the answer to HeadObject or GetObject, or an item of a list, which has no metadata."""
    found = head.get("Metadata", {})
    mode = found.get("mode", "")
    is_mode = mode.isascii() and mode.isdigit() and not set(mode) & {"8", "9"}
    return Entry(
        path=path,
        is_dir=is_dir,
        size=0 if is_dir else head.get("ContentLength", head.get("Size", 0)),
        modified_at=head.get("LastModified", NEVER),
        owner=unquote(found.get("owner", "")) or owner_by_name(path) or "root",
        group="supergroup",
        mode=int(mode, 8) & 0o1777 if is_mode else 0o755 if is_dir else 0o644,
    )
