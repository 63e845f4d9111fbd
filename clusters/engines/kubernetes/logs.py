"""Reads the log of a container of a pod: takes stamps off, and gives the bytes as they were written.

A kubelet sends lines with a stamp before each. Its older releases put a stamp also before each further piece of a line
that is longer than an engine writes at once (8 or 16 KiB). No more than one chunk of a log is in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import urllib3

from clusters.engines.kubernetes.errors import FOREIGN, unreachable
from clusters.engines.logs.chunks import CHUNK, Chunks
from clusters.engines.logs.stamps import SECOND, nanoseconds, stamp
from clusters.engines.logs.stream import LogStream, more_waiting
from clusters.engines.runtime import LOG_MARK, FaultReason, LogChunk, RuntimeFault

PIECE = 8 * 1024  # bytes: engines cut longer lines into pieces of this or twice this
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_FIRST_LINE = 256  # bytes that are enough for the line with the mark
# What a kubelet answers, with 200 and without a stamp, while the pod is still there and its container is not.
_NO_MORE = b"unable to retrieve container logs for "
_LONGEST_STAMP = 36  # bytes with the space behind it


def since_second(at: str) -> str:
    """The stamp without its fraction: the API knows no more exact ones."""
    return f"{stamp(nanoseconds(at)).partition('.')[0]}Z"


class Lines:
    """Takes a kubelet's bytes in pieces of any size, and gives what was written at ``since`` or later. A log that is
    read from its beginning, without ``since``, has to begin with its mark."""

    def __init__(self, since: str = "") -> None:
        self._since = nanoseconds(since) if since else 0
        self._first = not since
        self._rest = b""
        self._taken = 0  # bytes of the line that has begun, since its last stamp
        self._at = 0
        self._chunks = Chunks()

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
                if at := _STAMP.match(data, start):
                    self._at, self._taken, start = _time(at), 0, at.end()
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
        """All that has arrived."""
        yield from self._chunks.flush()

    def _add(self, text: bytes) -> Iterator[LogChunk]:
        if self._first:
            self._first = False
            self._chunks.beheaded = text != f"{LOG_MARK}\n".encode()
            if not self._chunks.beheaded:
                return
        elif self._at < self._since:
            return
        yield from self._chunks.add(self._at, text)


def _time(written: re.Match[bytes]) -> int:
    whole, fraction, zone = written[1].decode(), written[2] or b"", written[3].decode()
    try:
        moment = datetime.fromisoformat(f"{whole}{'+00:00' if zone == 'Z' else zone}").astimezone(UTC)
    except ValueError:
        return 0
    return int(moment.timestamp()) * SECOND + int(fraction.ljust(9, b"0"))


def pod_log(answer: urllib3.HTTPResponse, lines: Lines, cluster: str, *, follow: bool) -> LogStream:
    """The log that is the answer of the cluster of this name."""

    def read() -> Iterator[LogChunk]:
        has_more = more_waiting(getattr(answer.connection, "sock", None))
        is_first = True
        while data := answer.read1(CHUNK):
            if is_first and _NO_MORE.startswith(data[: len(_NO_MORE)]):
                raise RuntimeFault("The node has no log of it any more.", reason=FaultReason.GONE, permanent=True)
            is_first = False
            yield from lines.feed(data)
            if follow and not has_more():
                yield from lines.flush()
        yield from lines.feed(b"", last=True)
        yield from lines.flush()

    def hang_up() -> None:
        with suppress(*FOREIGN, ValueError, RuntimeError):
            answer.shutdown()
        answer.close()

    return LogStream(read(), hang_up, lambda error: unreachable(error, cluster), follow=follow, foreign=FOREIGN)
