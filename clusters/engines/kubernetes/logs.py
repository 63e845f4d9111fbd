"""Reads the log of a container of a pod: takes stamps off, and gives the bytes as they were written.

A kubelet sends lines with a stamp before each. Its older releases put a stamp also before each further piece of a line
that is longer than an engine writes at once (8 or 16 KiB). No more than one chunk of a log is in memory.
"""

from __future__ import annotations

import re
import select
import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import urllib3

from clusters.engines.kubernetes.errors import FOREIGN, unreachable
from clusters.engines.kubernetes.scripts import MARK
from clusters.engines.runtime import LogChunk
from clusters.engines.stamps import SECOND, nanoseconds, stamp

CHUNK = 64 * 1024
PIECE = 8 * 1024  # bytes: engines cut longer lines into pieces of this or twice this
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_FIRST_LINE = 256  # bytes that are enough for the line with the mark
_LONGEST_STAMP = 36  # bytes with the space behind it


def since_second(at: str) -> str:
    """The stamp without its fraction: the API knows no more exact ones."""
    return f"{stamp(nanoseconds(at)).partition('.')[0]}Z"


class Lines:
    """Takes a kubelet's bytes in pieces of any size, and gives what was written at ``since`` or later. In the chunks
    that it gives, the bytes of each stamp begin a chunk or follow their own. A log from its start has to begin with its
    mark."""

    def __init__(self, since: str = "") -> None:
        self._since = nanoseconds(since) if since else 0
        self._first = not since
        self._beheaded = False
        self._rest = b""
        self._taken = 0  # bytes of the line that has begun, since its last stamp
        self._at = 0
        self._texts: list[bytes] = []
        self._times: list[int] = []
        self._size = 0

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[LogChunk]:
        """Full chunks only; ``flush`` gives the rest. ``last``: nothing more comes."""
        data = self._rest + data
        if self._first and not last and len(data) < _FIRST_LINE and b"\n" not in data:
            self._rest = data
            return
        start, end = 0, len(data)
        while start < end:
            if self._taken % PIECE == 0:  # a stamp may be here
                if not last and end - start < _LONGEST_STAMP and data.find(b"\n", start) < 0:
                    break
                if found := _STAMP.match(data, start):
                    self._at, self._taken, start = _time(found), 0, found.end()
            stop = data.find(b"\n", start) + 1
            room = PIECE - self._taken % PIECE
            is_whole = 0 < stop <= start + room
            stop = stop if is_whole else min(end, start + room)
            if stop > start:
                yield from self._add(data[start:stop])
            self._taken = 0 if is_whole else self._taken + stop - start
            start = stop
        self._rest = data[start:]

    def flush(self) -> Iterator[LogChunk]:
        """All that has arrived. The bytes of the last stamp are a chunk of their own, since more of them may come."""
        yield from self._give(self._last_run())
        yield from self._give(len(self._texts))

    def _add(self, text: bytes) -> Iterator[LogChunk]:
        if self._first:
            self._first = False
            self._beheaded = text != f"{MARK}\n".encode()
            if not self._beheaded:
                return
        elif self._at < self._since:
            return
        if self._times and self._at < self._times[-1]:
            yield from self._give(len(self._texts))
        if self._texts and self._size + len(text) > CHUNK:
            if self._at == self._times[-1]:
                yield from self._give(self._last_run())
            if self._size + len(text) > CHUNK:
                yield from self._give(len(self._texts))
        self._texts.append(text)
        self._times.append(self._at)
        self._size += len(text)

    def _last_run(self) -> int:
        run = len(self._times)
        while run and self._times[run - 1] == self._times[-1]:
            run -= 1
        return run

    def _give(self, count: int) -> Iterator[LogChunk]:
        """The first ``count`` texts as one chunk."""
        if not count:
            return
        texts, times = self._texts[:count], self._times[:count]
        del self._texts[:count], self._times[:count]
        data, beheaded, self._beheaded = b"".join(texts), self._beheaded, False
        self._size -= len(data)
        yield LogChunk(stamp(times[0]), data, beheaded, _of_lines(texts, times))


def _of_lines(texts: list[bytes], times: list[int]) -> array[int]:
    """The stamp of each line, whole or in part."""
    begins = [True, *(text.endswith(b"\n") for text in texts[:-1])]
    return array("q", [at for at, new in zip(times, begins, strict=True) if new])


def _time(found: re.Match[bytes]) -> int:
    whole, fraction, zone = found[1].decode(), found[2] or b"", found[3].decode()
    try:
        moment = datetime.fromisoformat(f"{whole}{'+00:00' if zone == 'Z' else zone}").astimezone(UTC)
    except ValueError:
        return 0
    return int(moment.timestamp()) * SECOND + int(fraction.ljust(9, b"0"))


class LogStream(Iterator[LogChunk]):
    """A log that is being read. ``close`` may come from any thread: then the reader ends."""

    def __init__(self, answer: urllib3.HTTPResponse, lines: Lines, cluster: str, *, follow: bool) -> None:
        self._answer, self._lines, self._cluster, self._follow = answer, lines, cluster, follow
        self._closing = threading.Lock()
        self._closed = False
        self._chunks = self._read()

    def __next__(self) -> LogChunk:
        try:
            return next(self._chunks)
        except StopIteration:
            self.close()
            raise
        except Exception as error:
            # Closed by another thread, or the cluster went away under a follower: both are an end. But half of a log
            # must not pass for the whole of it.
            ended = self._closed or (self._follow and isinstance(error, FOREIGN))
            self.close()
            if ended:
                raise StopIteration from None
            raise unreachable(error, self._cluster) from error

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        with suppress(*FOREIGN, ValueError, RuntimeError):
            self._answer.shutdown()  # wakes a reader that is blocked in another thread
        self._answer.close()

    def _read(self) -> Iterator[LogChunk]:
        more = _waiting(self._answer)
        while data := self._answer.read1(CHUNK):
            yield from self._lines.feed(data)
            if self._follow and not more():
                yield from self._lines.flush()
        if not self._closed:
            yield from self._lines.feed(b"", last=True)
            yield from self._lines.flush()


def _waiting(answer: urllib3.HTTPResponse) -> Callable[[], bool]:
    """Whether more has arrived already. A false no only makes a chunk smaller."""
    connection: Any = getattr(answer.connection, "sock", None)
    if connection is None:
        return lambda: False
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return lambda: bool(getattr(connection, "pending", int)()) or bool(poll.poll(0))
