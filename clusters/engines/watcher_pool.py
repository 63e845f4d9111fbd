"""Gives many watchers their turns to look: one thread knows who is due, and each look has a thread of its own.

An engine that does not answer delays no other. Only so many looks begin at once, as many as the interpreter can carry
on; one that takes longer than QUICK waits for its engine and is not counted.
"""

from __future__ import annotations

import sched
import threading
import time
from collections.abc import Callable
from itertools import count

import structlog

from base.core.threads import KeptThread

MOST = 32  # looks that are worked on at once
QUICK = 0.5  # seconds after which a look only waits
LONGEST = 60.0  # seconds after which the thread that knows who is due counts as stuck
log = structlog.get_logger()


class WatcherPool:
    """``at(due, do)``: call ``do`` in a thread when the time has come, by the clock of ``time.monotonic``. What it
    raises is logged: it has to ask for its next turn whatever happens."""

    def __init__(self) -> None:
        self.thread = KeptThread("looks", self._step, longest=LONGEST, interrupt=lambda: self._changed.set())
        self._due = sched.scheduler(time.monotonic)
        self._changed = threading.Event()
        self._numbers = count()
        self._began: dict[int, float] = {}  # of looks that are under way
        self._lock = threading.Lock()

    def at(self, due: float, do: Callable[[], None]) -> None:
        self._due.enterabs(due, 0, self._begin, (do,))
        self._changed.set()

    def ensure_running(self) -> None:
        self.thread.ensure_running()

    def stop(self) -> None:
        self.thread.stop()

    def _step(self) -> None:
        self._changed.clear()
        wait = self._due.run(blocking=False)
        self._changed.wait(1.0 if wait is None else min(1.0, wait))

    def _begin(self, do: Callable[[], None]) -> None:
        while self._busy() >= MOST:
            time.sleep(0.005)
        number = next(self._numbers)
        with self._lock:
            self._began[number] = time.monotonic()
        threading.Thread(target=self._do, args=(number, do), name="look", daemon=True).start()

    def _busy(self) -> int:
        since = time.monotonic() - QUICK
        with self._lock:
            return sum(began > since for began in self._began.values())

    def _do(self, number: int, do: Callable[[], None]) -> None:
        try:
            do()
        except BaseException as error:  # whatever a library raises
            log.error("a look failed", exc_info=error)
        finally:
            with self._lock:
                del self._began[number]
