"""Where files outlive containers: one folder tree, on this host's disk or elsewhere, behind one Protocol."""

from __future__ import annotations

from django.conf import settings

from portal.store.base import Store
from portal.store.local import LocalStore


def open_store() -> Store:
    """The store of this portal. Cheap: call it where it is needed."""
    return LocalStore(settings.HOME / "store")
