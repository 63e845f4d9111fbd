"""Threads: some that go on whatever happens in them, and some that run what would block the event loop.

A step of a Kept that raises is logged, and the next one follows after a pause that grows. A thread that has ended all
the same, or that has been in one step for too long, is replaced by its owner, who calls ``keep`` at every occasion: it
costs nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import structlog
from django.db import close_old_connections, connections

from base.core import clock

log = structlog.get_logger()
T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0  # seconds after a step that raised
_MOST_STUCK = 3  # threads of one owner that may be stuck before no new one is started beside them


class KeptThread:
    """Calls ``step`` again and again in a thread of its own, from the first ``ensure_running`` to ``stop``. ``step``
    waits by itself, for at most ``longest`` seconds, and ``interrupt`` ends that wait."""

    def __init__(
        self, name: str, step: Callable[[], None], *, longest: float, interrupt: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self.longest = longest
        self._step = step
        self._interrupt = interrupt
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._stuck: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._beat = clock.monotonic_now()
        self.failures = 0  # steps in a row that raised

    def ensure_running(self) -> None:
        """Start the thread where there is none that works."""
        with self._lock:
            if self._stopped.is_set() or self._works():
                return
            if self._thread is not None:
                log.error("a thread is started anew", name=self.name, stuck=self._thread.is_alive())
            self._stuck = [one for one in (*self._stuck, self._thread) if one is not None and one.is_alive()]
            if len(self._stuck) > _MOST_STUCK:
                return
            self._beat = clock.monotonic_now()
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._interrupt()

    def age(self) -> float:
        """Seconds since it last began a step."""
        return (clock.monotonic_now() - self._beat).total_seconds()

    def is_late(self) -> bool:
        """It does not work, or its steps keep raising."""
        return not self._works() or self.failures >= 3

    def _works(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and self.age() <= self.longest

    def _run(self) -> None:
        me = threading.current_thread()
        while not self._stopped.is_set() and self._thread is me:
            self._beat = clock.monotonic_now()
            try:
                self._step()
                self.failures = 0
            except BaseException as error:  # also what no library should raise: a thread that ended helps nobody
                self.failures += 1
                log.error("a thread goes on after an error", name=self.name, failures=self.failures, exc_info=error)
                self._stopped.wait(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.failures, 8)))
            close_old_connections()


def run_beside(name: str, work: Callable[..., object], *arguments: Any, alone: threading.Lock | None = None) -> None:
    """Run ``work`` in a thread of its own, and return at once. What it raises is logged. While another thread holds
    ``alone``, nothing is done."""

    def run() -> None:
        if alone is not None and not alone.acquire(blocking=False):
            return
        try:
            work(*arguments)
        except Exception:
            log.exception("work in a thread failed", name=name)
        finally:
            if alone is not None:
                alone.release()
            connections.close_all()  # of this thread, which ends

    threading.Thread(target=run, name=name, daemon=True).start()


async def in_thread(function: Callable[..., T], *arguments: Any, pool: Executor | None = None) -> T:
    """Run ``function`` in a thread and give what it returns or raises. The threads of ``pool`` keep their database
    connections for the next call. Without a pool it is any thread of asyncio's, which keeps none: there may be many."""

    def run() -> T:
        close_old_connections()
        try:
            return function(*arguments)
        finally:
            if pool is None:
                connections.close_all()

    return await asyncio.get_running_loop().run_in_executor(pool, run)
