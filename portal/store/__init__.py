"""Where files outlive containers: one folder tree, on this host's disk or on HDFS, behind one Protocol."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from portal.store.base import Store
from portal.store.local import LocalStore


def open_store() -> Store:
    """The store of this portal. Cheap: call it where it is needed."""
    if not settings.STORE_URL:
        return LocalStore(settings.HOME / "store")
    return _hdfs(settings.STORE_URL, settings.STORE_USER)


@lru_cache(maxsize=1)
def _hdfs(url: str, user: str) -> Store:
    """One for the process: it keeps its connections, and knows when the store was last out of reach."""
    from portal.store.hdfs import HdfsStore  # takes 0.1 s, for those who have one
    from portal.store.urls import namenodes

    return HdfsStore(namenodes(url), user)
