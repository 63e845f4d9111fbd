"""One listener for all live streams of a process: it wakes them when another process reports that pages have
changed."""

from __future__ import annotations

import asyncio
import threading

from portal.core.threads import Kept
from portal.wakes.wake import Listener

POLL = 5.0  # seconds after which streams look without a wake-up, as one may be lost


class Hub:
    """A thread that runs only while there are streams. It serves both databases, whose wake-ups differ."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._thread: Kept | None = None
        self._listener: Listener | None = None

    def join(self, loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
        with self._lock:
            self._waiting[woken] = loop
            if self._thread is None:
                self._thread = Kept("pages", self._step, longest=6 * POLL)
            self._thread.keep()

    def leave(self, woken: asyncio.Event) -> None:
        with self._lock:
            self._waiting.pop(woken, None)

    def _step(self) -> None:
        if self._wake_all():
            if self._listener is None:
                self._listener = Listener("pages")
            self._listener.wait(POLL)

    def _wake_all(self) -> bool:
        """Wake all streams. False when there are none any more; then the thread ends."""
        with self._lock:
            for woken, loop in list(self._waiting.items()):
                try:
                    loop.call_soon_threadsafe(woken.set)
                except RuntimeError:  # that loop is closed
                    del self._waiting[woken]
            if not self._waiting and self._thread is not None:
                self._thread.stop()
                self._thread = None
                if self._listener is not None:
                    self._listener.close()
                    self._listener = None
            return bool(self._waiting)


hub = Hub()
