"""Paths and entries as HDFS has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from portal.files.store.base import BadPath, Entry, names_of


def plain(path: str) -> str:
    """``/a/b``. HDFS takes no colon, and its DataNode decodes a per cent sign twice."""
    names = names_of(path)
    if any(":" in name or "%" in name for name in names):
        raise BadPath(f"{path}: HDFS takes no colon and no per cent sign in a name.")
    return "/" + "/".join(names)


def entry_of(path: str, row: dict[str, Any]) -> Entry:
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
