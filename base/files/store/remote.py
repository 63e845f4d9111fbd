"""What stores on servers have in common: they leave one that is silent alone, read the bodies of its answers, and make
folders."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from base.core.errors import LongshoreError
from base.files.store.base import StoreUnavailable

_ASSUMED = 5.0  # seconds for which a folder is assumed to exist
_MOST = 10_000  # folders that are remembered


class Breaker:
    """Leaves a server that did not answer alone for a while, so that callers do not queue up for it.

    After ``silent`` nobody is admitted for ``rest`` seconds. Then one caller is, who finds out how things are; the
    others follow once that one was answered, or has reported nothing for ``patience`` seconds.
    """

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


class Reading(io.RawIOBase):
    """The body of a server's answer as a file that is being read. An answer that ends too early raises
    StoreUnavailable: it is not the end of the file.

    ``read`` gives at most as many bytes of the body as it is asked for, ``left`` is how many bytes it has, ``close``
    gives the connection back. ``kind``: what the store is on, for people."""

    def __init__(
        self, path: str, kind: str, read: Callable[[int], bytes], close: Callable[[], object], left: int
    ) -> None:
        self._path, self._kind, self._read, self._close, self._left = path, kind, read, close, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            return 0
        try:
            data = self._read(min(len(buffer), self._left))
        except Exception as error:  # the libraries' own, which only their edges know
            raise self._broke_off(type(error).__name__) from None
        if not data:
            raise self._broke_off("it ended too early")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._close()
        super().close()

    def _broke_off(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(f"The file store ({self._kind}) broke off while {self._path} was read: {why}.")


class RecentFolders:
    """Makes the folder of a new file, but for many files in one folder only once every few seconds. ``make`` makes a
    folder of an owner where it is missing. ``forget`` is for whoever renames or deletes: a folder
    may be gone then."""

    def __init__(self, make: Callable[[str, str], object]) -> None:
        self._make = make
        self._seen: dict[str, float] = {}  # when a folder was last there

    def ensure(self, folder: str, owner: str) -> None:
        now = time.monotonic()
        if now - self._seen.get(folder, -math.inf) < _ASSUMED:
            return
        self._make(folder, owner)
        if len(self._seen) > _MOST:
            self._seen.clear()
        self._seen[folder] = now

    def forget(self) -> None:
        self._seen.clear()
