"""The file store, where files outlive containers: one folder tree, on this host's disk, on HDFS or in a bucket of S3,
behind one Protocol."""

from __future__ import annotations

import uuid
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from base.core.env import bucket_at
from base.core.store_url import Bucket, is_bucket, namenodes
from base.files.store.base import Store, StoreUnavailable
from base.files.store.local import LocalStore


def open_store() -> Store:
    """The store of this portal. Cheap: call it where it is needed."""
    if not settings.STORE_URL:
        from base.files.store import marker  # late: settings, without which it cannot be, needs this package

        root = local_root()
        return LocalStore(root, marker.expected(root))
    return _own(settings.STORE_URL, settings.STORE_USER, settings.STORE_BUCKET)


def store_at(place: str) -> Store:
    """Any store, by its folder or by what LONGSHORE_STORE_URL would say. Raises ValueError for neither, and
    StoreUnavailable for a folder that is not there."""
    if not (root := Path(place)).is_absolute():
        bucket = bucket_at(place, "LONGSHORE_S3") if is_bucket(place) else None
        return _remote(place, settings.STORE_USER, bucket)
    if not root.is_dir():
        raise StoreUnavailable(f"{root} is not there. Is its disk mounted? Make the folder if it is to be a new store.")
    return LocalStore(root)


def local_root() -> Path:
    return Path(settings.HOME / "store")


def try_write(store: Store) -> None:
    """StoreUnavailable when a file cannot be written in a new folder, or cannot be given to another user."""
    folder = f"/.longshore-trial-{uuid.uuid4().hex[:12]}"
    try:
        store.write(f"{folder}/file", [b"Longshore tries whether it can write."], owner="longshore-trial", mode=0o600)
    finally:
        store.delete(folder, recursive=True)


def _remote(url: str, user: str, bucket: Bucket | None) -> Store:
    if bucket and is_bucket(url):
        from base.files.store.s3.store import S3Store  # loading it takes 0.6 s and 20 MB

        return S3Store(bucket)
    from base.files.store.hdfs.store import HdfsStore  # loading it takes 0.1 s

    return HdfsStore(namenodes(url), user)


# The one of the process: it reuses its connections, and remembers when the store was last out of reach.
_own = lru_cache(maxsize=1)(_remote)
