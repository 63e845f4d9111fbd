"""Leaves a server that did not answer alone for a while, so that callers do not queue up for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from portal.core.errors import LongshoreError
from portal.files.store.base import StoreUnavailable


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

    @contextmanager
    def guarding(
        self, foreign: tuple[type[Exception], ...], error_of: Callable[[Exception], LongshoreError]
    ) -> Iterator[None]:
        """For a block that asks the server. What is ``foreign`` of what it raises becomes the store's error by
        ``error_of``, which also calls ``answered`` or ``silent``. StoreUnavailable while the server is left alone."""
        if reason := self.refusal():
            raise StoreUnavailable(reason)
        try:
            yield
        except foreign as error:
            raise error_of(error) from None
        self.answered()
