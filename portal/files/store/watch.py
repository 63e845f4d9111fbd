"""Knows whether something answers, for callers that cannot wait for it: a thread of its own asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, Thread

import structlog

log = structlog.get_logger()

SILENT = "It does not answer."


class Liveness:
    """``ask`` returns a sentence about what is wrong, empty when nothing is. It is called when somebody wants to know
    and the last answer is older than ``every`` seconds; one call at a time. After ``slow`` seconds it counts as silent.
    """

    def __init__(self, ask: Callable[[], str], every: float = 5.0, slow: float = 3.0) -> None:
        self._ask, self._every, self._slow = ask, every, slow
        self._lock = Lock()
        self._thread: Thread | None = None
        self._began = -every
        self._told: str | None = None

    def told(self, wait: float = 0.0) -> str | None:
        """The last answer. None while there is none yet; it waits up to ``wait`` seconds for the first one."""
        with self._lock:
            running = self._thread is not None and self._thread.is_alive()
            if not running and time.monotonic() - self._began >= self._every:
                self._began = time.monotonic()
                self._thread = Thread(target=self._look, name="watch", daemon=True)
                self._thread.start()
            thread, began = self._thread, self._began
        if thread and self._told is None and wait:
            thread.join(wait)
        if thread and thread.is_alive() and time.monotonic() - began > self._slow:
            return SILENT
        return self._told

    def _look(self) -> None:
        try:
            self._told = self._ask()
        except Exception as error:  # not knowing is no good news
            log.exception("the check itself failed")
            self._told = f"Whether it answers could not be found out: {type(error).__name__}."
