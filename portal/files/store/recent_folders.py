"""Makes the folder of a new file, but for many files in one folder only once every few seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_ASSUMED = 5.0  # seconds for which a folder is assumed to exist
_MOST = 10_000  # folders that are remembered


class RecentFolders:
    """``make`` makes a folder of an owner where it is missing. ``forget`` is for whoever renames or deletes: a folder
    may be gone then."""

    def __init__(self, make: Callable[[str, str], object]) -> None:
        self._make = make
        self._seen: dict[str, float] = {}  # when a folder was last there

    def ensure(self, folder: str, owner: str) -> None:
        now = time.monotonic()
        if now - self._seen.get(folder, -math.inf) < _ASSUMED:
            return
        self._make(folder, owner)
        if len(self._seen) > _MOST:
            self._seen.clear()
        self._seen[folder] = now

    def forget(self) -> None:
        self._seen.clear()
