"""The file store, where files outlive containers: one folder tree, on this host's disk, on HDFS or in a bucket of S3,
behind one Protocol."""

from __future__ import annotations

import uuid
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from portal.core.store_url import Bucket, is_bucket
from portal.files.store.base import Store
from portal.files.store.local import LocalStore


def open_store() -> Store:
    """The store of this portal. Cheap: call it where it is needed."""
    if not settings.STORE_URL:
        from portal.files.store import marker  # late: settings, without which it cannot be, needs this package

        root = local_root()
        return LocalStore(root, marker.expected(root))
    if is_bucket(settings.STORE_URL):
        return _s3(settings.STORE_BUCKET)
    return _hdfs(settings.STORE_URL, settings.STORE_USER)


def local_root() -> Path:
    return Path(settings.HOME / "store")


def try_write(store: Store) -> None:
    """StoreUnavailable when a file cannot be written in a new folder, or cannot be given to another user."""
    folder = f"/.longshore-trial-{uuid.uuid4().hex[:12]}"
    try:
        store.write(f"{folder}/file", [b"Longshore tries whether it can write."], owner="longshore-trial", mode=0o600)
    finally:
        store.delete(folder, recursive=True)


@lru_cache(maxsize=1)
def _hdfs(url: str, user: str) -> Store:
    """One for the process: it reuses its connections, and remembers when the store was last out of reach."""
    from portal.core.store_url import namenodes
    from portal.files.store.hdfs.store import HdfsStore  # loading it takes 0.1 s

    return HdfsStore(namenodes(url), user)


@lru_cache(maxsize=1)
def _s3(bucket: Bucket) -> Store:
    """As with ``_hdfs``."""
    from portal.files.store.s3.store import S3Store  # loading it takes 0.6 s and 20 MB

    return S3Store(bucket)
