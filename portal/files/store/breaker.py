"""Leaves a server that did not answer alone for a while, so that callers do not queue up for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock


class Breaker:
    """After ``silent`` nobody is admitted for ``rest`` seconds. Then one caller is, who finds out how things are; the
    others follow once that one was answered, or has reported nothing for ``patience`` seconds."""

    def __init__(self, rest: float, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest, self._patience, self._clock = rest, patience, clock
        self._lock = Lock()
        self._until, self._reason = 0.0, ""

    def refusal(self) -> str:
        """Empty: go ahead and ask the server, then call ``answered`` or ``silent``. Else the reason why it is left
        alone."""
        if not self._reason:
            return ""
        with self._lock:
            now = self._clock()
            if self._reason and now >= self._until:
                self._until = now + self._patience
                return ""
            return self._reason

    def answered(self) -> None:
        self._reason = ""

    def silent(self, reason: str) -> None:
        with self._lock:
            self._until, self._reason = self._clock() + self._rest, reason
