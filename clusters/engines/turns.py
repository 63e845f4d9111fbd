"""Gives many watchers their turns to look, with few threads: one thread that knows who is due, and hands that do it.

A look that takes long keeps its hand, and others get new ones: an engine that does not answer delays no other. Only so
many begin at once, as many as the interpreter can carry on; one that takes longer than QUICK waits for its engine and
is not counted.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable
from itertools import count

import structlog

from portal.core.threads import Kept

MOST = 32  # looks that are worked on at once
QUICK = 0.5  # seconds after which a look only waits
IDLE = 10.0  # seconds after which a hand without work ends
LONGEST = 60.0  # seconds after which the thread that knows who is due counts as stuck
log = structlog.get_logger()


class Turns:
    """``at(due, do)``: call ``do`` in a hand when the time has come, by the clock of ``time.monotonic``. What it raises
    is logged: it has to ask for its next turn whatever happens."""

    def __init__(self) -> None:
        self.thread = Kept("looks", self._step, longest=LONGEST, interrupt=self._wake)
        self._due: list[tuple[float, int, Callable[[], None]]] = []  # a heap
        self._numbers = count()
        self._changed = threading.Condition()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = 0
        self._began: dict[int, float] = {}  # of what hands do now
        self._lock = threading.Lock()

    def at(self, due: float, do: Callable[[], None]) -> None:
        with self._changed:
            first = self._due[0][0] if self._due else None
            heapq.heappush(self._due, (due, next(self._numbers), do))
            if first is None or due < first:
                self._changed.notify()

    def keep(self) -> None:
        self.thread.keep()

    def stop(self) -> None:
        self.thread.stop()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _step(self) -> None:
        with self._changed:
            now = time.monotonic()
            wait = min(1.0, self._due[0][0] - now) if self._due else 1.0
            if wait > 0:
                self._changed.wait(wait)
                return
            do = heapq.heappop(self._due)[2]
        while self._busy() >= MOST:
            time.sleep(0.005)
        self._hand(do)

    def _busy(self) -> int:
        since = time.monotonic() - QUICK
        with self._lock:
            return sum(began > since for began in self._began.values())

    def _hand(self, do: Callable[[], None]) -> None:
        with self._lock:
            number = next(self._numbers)
            self._began[number] = time.monotonic()
            if self._idle:
                self._idle -= 1
                self._work.put(lambda: self._do(number, do))
                return
        threading.Thread(target=self._serve, args=(number, do), name="look", daemon=True).start()

    def _serve(self, number: int, do: Callable[[], None]) -> None:
        self._do(number, do)
        while True:
            with self._lock:
                self._idle += 1
            try:
                work = self._work.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                work = self._work.get()  # it was given this very moment
            work()

    def _do(self, number: int, do: Callable[[], None]) -> None:
        try:
            do()
        except BaseException as error:  # a hand goes on whatever a library raises
            log.error("a look failed", exc_info=error)
        finally:
            with self._lock:
                del self._began[number]
