"""Knows whether the file store answers and takes files. A thread asks, so that nobody waits for a store that is
silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

import structlog
from django.conf import settings
from django.db import connection

from base.core.errors import LongshoreError
from base.files.store import marker, open_store, try_write

log = structlog.get_logger()

SILENT = "It does not answer."
_WRITE_EVERY = 60.0  # seconds
_wrote_at = -_WRITE_EVERY


def is_store_up(wait: float = 0.0) -> bool | None:
    """Whether it is, as of the last seconds. None when this process does not know yet; it waits up to ``wait`` seconds
    for that."""
    fault = _watch.last_answer(wait)
    return None if fault is None else not fault


def store_fault() -> str | None:
    """A sentence about what is wrong with the store; empty when nothing is."""
    return _watch.last_answer()


def try_store(sender: object = None, say: Callable[[str], None] = print, **_: Any) -> None:
    """Receiver of base.core.signals.first_start."""
    try:
        try_write(open_store())
    except LongshoreError as error:
        say(f"Files cannot be kept yet. {error.message} Jobs run, and their files are written later.")


def _ask() -> str:
    """Ask the store; a sentence about what is wrong. Every minute it must also take a file."""
    global _wrote_at
    try:
        store = open_store()
        store.stat("/")
        if settings.STORE_URL:  # a folder looks at its id by itself
            try:
                marker.recognize(store, settings.STORE_URL)
            finally:
                connection.close()  # the thread that asks ends with its answer
        if time.monotonic() - _wrote_at > _WRITE_EVERY:
            try_write(store)
            _wrote_at = time.monotonic()
    except LongshoreError as error:
        return error.message
    return ""


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

    def last_answer(self, wait: float = 0.0) -> str | None:
        """Return the last answer. None while there is none yet; it waits up to ``wait`` seconds for the first one."""
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


_watch = Liveness(_ask)
