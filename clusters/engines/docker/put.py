"""Sends a tar of this machine's disk into a container."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

from clusters.engines.runtime import Progress

EVERY = 1.0  # seconds between two reports of progress


class Sent(io.FileIO):
    """The tar is never in memory as a whole. ``on_progress`` is called as the engine takes it; what it raises ends the
    transfer."""

    def __init__(self, path: Path, on_progress: Callable[[Progress], None]) -> None:
        super().__init__(path)
        self._on_progress = on_progress
        self._size, self._reported_at = path.stat().st_size, time.monotonic()

    def read(self, size: int | None = -1, /) -> bytes:
        if time.monotonic() - self._reported_at >= EVERY:
            self._reported_at, done = time.monotonic(), self.tell()
            text = f"copying files into the container: {done / 1e6:.0f} of {self._size / 1e6:.0f} MB"
            self._on_progress(Progress(done, self._size, text))
        return super().read(size)
