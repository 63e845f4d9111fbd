"""One listener for all live streams of a process: wakes them when another process says that pages have changed."""

from __future__ import annotations

import asyncio
import threading

from portal.wake import Listener

POLL = 5.0  # seconds after which streams look by themselves, should a wake-up be lost


class Hub:
    """A thread that runs only while somebody listens. One way for both databases, whose wake-ups differ."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._running = False

    def join(self, loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
        with self._lock:
            self._waiting[woken] = loop
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="pages", daemon=True).start()

    def leave(self, woken: asyncio.Event) -> None:
        with self._lock:
            self._waiting.pop(woken, None)

    def _run(self) -> None:
        listener = Listener("pages")
        try:
            while self._wake_all():
                listener.wait(POLL)
        finally:
            listener.close()

    def _wake_all(self) -> bool:
        """False when nobody listens any more; the thread then ends."""
        with self._lock:
            for woken, loop in list(self._waiting.items()):
                try:
                    loop.call_soon_threadsafe(woken.set)
                except RuntimeError:  # that loop is closed
                    del self._waiting[woken]
            self._running = bool(self._waiting)
            return self._running


hub = Hub()
