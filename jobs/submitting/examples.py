"""Puts the programs and data of the examples into the store of a new portal, where its samples look for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from base.core.errors import LongshoreError
from base.files.store import open_store
from base.files.store.base import find
from jobs.models import Job

FOLDER = "/examples"  # in the store; everybody reads it, admins write
SOURCE = Path(__file__).resolve().parents[2] / "docs/examples"


def put() -> None:
    """Put them there at the first start. Files that are there stay as they are; once there are jobs the folder is the
    admins' own, and what they delete stays deleted."""
    try:
        if not Job.objects.exists():
            store = open_store()
            for name, file in files():
                if find(store, f"{FOLDER}/{name}") is None:
                    store.write(f"{FOLDER}/{name}", [file.read_bytes()], overwrite=False)
    except (LongshoreError, OSError):  # that the store is away is told by base.files.store.state
        return


def files() -> Iterator[tuple[str, Path]]:
    """(name below the folder, file) of what the samples name."""
    for part in ("code", "data"):
        for file in sorted((SOURCE / part).glob("*.*")):
            if file.is_file():
                yield f"{part}/{file.name}", file
