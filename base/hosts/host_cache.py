"""What the processes of one host remember together for a while, in files: no decision may need it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.cache.backends.filebased import FileBasedCache


class HostCache(FileBasedCache):
    """A disk that is full, or a folder that is gone, makes it forgetful and stops nobody."""

    def _createdir(self) -> None:
        with suppress(OSError):
            super()._createdir()  # type: ignore[misc]

    def set(self, *args: Any, **values: Any) -> None:
        with suppress(OSError):
            super().set(*args, **values)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except OSError:
            return default

    def has_key(self, *args: Any, **values: Any) -> bool:
        try:
            return bool(super().has_key(*args, **values))
        except OSError:
            return False
