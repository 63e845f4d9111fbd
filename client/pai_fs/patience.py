"""Waits for a server that is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from .errors import Unreachable

# Without patience, in sum 127 seconds: HDFS lets nobody else write to a file for a minute after its writer died.
TRIES, FIRST_PAUSE, MOST_PAUSE = 9, 0.5, 5.0  # seconds; a pause is twice the one before
Done = TypeVar("Done")


class Stopped(Exception):
    """Another file failed."""


class Patience:
    """For so many ``seconds`` a server that is away is waited for, of which ``tell`` gets a sentence, once for all
    files. With 0 a file is tried so often as pai-fs always did, and what comes before the files is not."""

    def __init__(self, seconds: float, tell: Callable[[str], None]) -> None:
        self._seconds, self._tell = seconds, tell
        self._lock, self._is_away = threading.Lock(), False
        self.stop = threading.Event()

    def until_done(self, ask: Callable[[], Done], arrived: Callable[[], int] | None = None) -> Done:
        """What ``ask`` returns, which may be called several times. ``arrived``: the bytes of a file that are there;
        when they have become more, the patience begins anew. Raises Unreachable when it ends."""
        most, pauses = 0, self._pauses(arrived is not None)
        while True:
            try:
                found = ask()
            except Unreachable as error:
                if arrived and (done := arrived()) > most:
                    most, pauses = done, self._pauses(True)
                pause = next(pauses, None)
                if pause is None:
                    raise
                self._say(f"{str(error).rstrip('.')}. This waits, and goes on where it was.", is_away=True)
                if self.stop.wait(pause):
                    raise Stopped from None
            else:
                self.answered()
                return found

    def answered(self) -> None:
        self._say("It goes on.", is_away=False)

    def _say(self, sentence: str, *, is_away: bool) -> None:
        with self._lock:
            if self._seconds and is_away != self._is_away:
                self._is_away = is_away
                self._tell(sentence)

    def _pauses(self, is_file: bool) -> Iterator[float]:
        if not self._seconds:
            yield from (FIRST_PAUSE * 2**at for at in range(TRIES - 1 if is_file else 0))
            return
        until, pause = time.monotonic() + self._seconds, FIRST_PAUSE
        while time.monotonic() + pause < until:
            yield pause
            pause = min(MOST_PAUSE, 2 * pause)
