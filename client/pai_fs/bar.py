"""What a copy tells, and the bar that shows how far it is."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Protocol


class CopyProgress(Protocol):
    def begin(self, total: int) -> None:
        """Called with the number of bytes to copy."""

    def at(self, name: str, done: int) -> None:
        """Called with the number of bytes of this file that are in the target."""

    def note(self, text: str) -> None:
        """Called with a sentence that the user should read."""


class ProgressBar:
    """Shows the bytes so far and their rate, on a terminal only."""

    def __init__(self, before: str = "") -> None:
        """``before``: what begins each sentence."""
        self._before = before
        self._shown = sys.stderr.isatty()
        self._said = 0.0
        self._done: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, total: int) -> None:
        self._total, self._began = total, time.monotonic()

    def at(self, name: str, done: int) -> None:
        if not self._shown:
            return
        with self._lock:
            self._done[name] = done
            now = time.monotonic()
            if now - self._said >= 0.2:
                self._said = now
                self._show(sum(self._done.values()), now - self._began)

    def note(self, text: str) -> None:
        self.clear()
        print(f"{self._before}{text}", file=sys.stderr)

    def _show(self, done: int, seconds: float) -> None:
        share = min(1.0, done / max(1, self._total))
        bar = ("#" * round(20 * share)).ljust(20, ".")
        rate = done / 1e6 / max(seconds, 1e-3)
        line = f"{bar} {share:4.0%} {done / 1e6:.1f} of {self._total / 1e6:.1f} MB, {rate:.1f} MB/s"
        self._put(line)

    def clear(self) -> None:
        if self._shown:
            self._put("")
            print("\r", end="", file=sys.stderr, flush=True)

    def _put(self, line: str) -> None:
        """One that were wider than the terminal would stay there."""
        width = min(70, shutil.get_terminal_size().columns - 1)
        print(f"\r{line[:width]:<{width}}", end="", file=sys.stderr, flush=True)
