"""Reads a container's log from an engine: takes frames apart and stamps off, and gives the bytes exactly as they were
written.

The engine sends one frame for each line, or for each 16 KiB of a longer line. A frame has a header of 8 bytes and
begins with its stamp. No more than one chunk of a log is in memory. The mark with which a container begins its log
(MARK of the module request) is taken off; a log without it has lost its beginning.
"""

from __future__ import annotations

import calendar
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import requests

from clusters.engines.docker.errors import FOREIGN, fault_of, short
from clusters.engines.docker.request import MARK
from clusters.engines.runtime import FaultReason, LogChunk, RuntimeFault

CHUNK = 64 * 1024
HEADER = 8
SYSTEM_ERROR = 3  # the number of the stream on which the engine reports that it cannot read the log


def unix_stamp(at: str) -> str:
    """2026-11-20T10:00:00.5Z -> 1795169000.500000000, the form the engine's ``since`` wants; exact to the
    nanosecond."""
    whole, _, fraction = at.rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return f"{seconds}.{fraction.ljust(9, '0')}"


class Frames:
    """Takes the engine's bytes in pieces of any size. In the chunks that it gives, the bytes of each stamp begin a
    chunk or follow their own. ``is_beheaded`` is asked with the first stamp when a log is read from its beginning and
    has no mark there."""

    def __init__(self, is_beheaded: Callable[[str], bool] | None = None) -> None:
        self._rest = b""  # the beginning of a frame
        self._pieces: list[tuple[bytes, bytes]] = []  # stamps and texts that are not in a chunk yet
        self._size = 0
        self._last = b""  # stamp
        self._is_beheaded = is_beheaded  # until the first frame is here
        self._beheaded = False  # until the first chunk is given

    @property
    def in_a_frame(self) -> bool:
        return bool(self._rest)

    def feed(self, data: bytes) -> Iterator[LogChunk]:
        """Full chunks only; ``flush`` gives the rest. Raises REFUSED where the engine cannot read on."""
        data = self._rest + data
        if self._is_beheaded is not None:
            data = self._without_mark(data)
        start, end, find = 0, len(data), data.find
        while end - start >= HEADER:
            text = start + HEADER
            stop = text + int.from_bytes(data[start + 4 : text], "big")
            if stop > end:
                break
            if data[start] == SYSTEM_ERROR:
                yield from self.flush()
                raise _unreadable(data[text:stop])
            space = find(b" ", text, stop)
            space = stop if space < 0 else space
            size = self._size + max(0, stop - space - 1)
            at = data[text:space]
            if size <= CHUNK and at >= self._last:  # here and not in a function: this loop sees every line of every log
                self._pieces.append((at, data[space + 1 : stop]))
                self._size, self._last = size, at
            else:
                yield from self._add(at, data[space + 1 : stop])
            start = stop
        self._rest = data[start:]

    def flush(self) -> Iterator[LogChunk]:
        """All that has arrived. The bytes of the last stamp are a chunk of their own, since more of them may come."""
        run = self._last_run()
        yield from self._give(run)
        yield from self._give(len(self._pieces))

    def _without_mark(self, data: bytes) -> bytes:
        """Once the first frame is here."""
        stop = HEADER + int.from_bytes(data[4:HEADER], "big")
        if len(data) < max(HEADER, stop) or self._is_beheaded is None:
            return data
        at, _, text = data[HEADER:stop].partition(b" ")
        marked, is_beheaded, self._is_beheaded = text == f"{MARK}\n".encode(), self._is_beheaded, None
        self._beheaded = not marked and data[0] != SYSTEM_ERROR and is_beheaded(at.decode("ascii", "replace"))
        return data[stop:] if marked else data

    def _add(self, at: bytes, text: bytes) -> Iterator[LogChunk]:
        if at < self._last:
            yield from self._give(len(self._pieces))
        self._last = at
        if self._pieces and self._size + len(text) > CHUNK:
            if at == self._pieces[-1][0]:
                yield from self._give(self._last_run())
            if self._size + len(text) > CHUNK:
                yield from self._give(len(self._pieces))
        while len(text) > CHUNK:
            yield self._chunk(at, text[:CHUNK])
            text = text[CHUNK:]
        self._pieces.append((at, text))
        self._size += len(text)

    def _last_run(self) -> int:
        """Where the pieces with the last stamp begin."""
        run = len(self._pieces)
        while run and self._pieces[run - 1][0] == self._pieces[-1][0]:
            run -= 1
        return run

    def _give(self, count: int) -> Iterator[LogChunk]:
        """The first ``count`` pieces as one chunk."""
        if count:
            yield self._chunk(self._pieces[0][0], b"".join([text for _, text in self._pieces[:count]]))
            del self._pieces[:count]
            self._size = sum(len(text) for _, text in self._pieces)

    def _chunk(self, at: bytes, data: bytes) -> LogChunk:
        beheaded, self._beheaded = self._beheaded, False
        return LogChunk(at.decode("ascii", "replace"), data, beheaded)


class LogStream(Iterator[LogChunk]):
    """A log that is being read. ``close`` may come from any thread: then the reader ends. ``done`` gives the client
    back. ``is_beheaded`` is that of Frames."""

    def __init__(
        self,
        response: requests.Response,
        endpoint: str,
        follow: bool,
        done: Callable[[], object],
        is_beheaded: Callable[[str], bool] | None = None,
    ) -> None:
        self._frames = Frames(is_beheaded)
        self._response = response
        self._endpoint = endpoint
        self._follow = follow
        self._done = done
        self._closing = threading.Lock()
        self._closed = False
        self._socket = response.raw.connection.sock
        self._chunks = self._read()

    def __next__(self) -> LogChunk:
        try:
            return next(self._chunks)
        except StopIteration:
            self.close()
            raise
        except Exception as error:
            # Closed by another thread, or the engine went away under a follower: both are an end. But half of a log
            # must not pass for the whole of it.
            if self._closed or (self._follow and isinstance(error, FOREIGN)):
                self.close()
                raise StopIteration from None
            self.close()
            if isinstance(error, RuntimeFault):
                raise
            raise fault_of(error, self._endpoint) from error

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a reader that is blocked in another thread
        except OSError:
            pass
        self._response.close()
        self._done()

    def _read(self) -> Iterator[LogChunk]:
        frames = self._frames
        more_waiting = _waiting(self._socket)
        for data in self._response.raw.stream(CHUNK):
            yield from frames.feed(data)
            if self._follow and not more_waiting():
                yield from frames.flush()
        yield from frames.flush()
        if frames.in_a_frame:
            raise EOFError("the log ended in the middle of a line")


def _unreadable(said: bytes) -> RuntimeFault:
    text = short(said.decode("utf-8", "replace"))
    return RuntimeFault(f"The engine cannot read the log to its end: {text}", reason=FaultReason.REFUSED)


def _waiting(connection: Any) -> Callable[[], bool]:
    """Whether more has arrived already. A false no only makes a chunk smaller."""
    if hasattr(connection, "recv_ready"):  # SSH
        return lambda: bool(connection.recv_ready())
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return lambda: bool(poll.poll(0))
