"""A tar of this machine's disk on its way into a container."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

from clusters.engines.runtime import Progress

EVERY = 1.0  # seconds between two reports of progress


class Sent(io.FileIO):
    """Never in memory as a whole. Progress is told as the engine takes it; an error of ``on_progress`` ends it."""

    def __init__(self, path: Path, on_progress: Callable[[Progress], None]) -> None:
        super().__init__(path)
        self._on_progress = on_progress
        self._size, self._told_at = path.stat().st_size, time.monotonic()

    def read(self, size: int | None = -1, /) -> bytes:
        if time.monotonic() - self._told_at >= EVERY:
            self._told_at, done = time.monotonic(), self.tell()
            text = f"copying files into the container: {done / 1e6:.0f} of {self._size / 1e6:.0f} MB"
            self._on_progress(Progress(done, self._size, text))
        return super().read(size)
