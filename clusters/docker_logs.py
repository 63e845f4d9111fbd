"""Reading a container's log from an engine: frames apart, stamps off, bytes exactly as they were written.

The engine sends one frame a line, or one for each 16 KiB of a longer line; every frame has a header of 8 bytes and
begins with its stamp. Nothing of a log is ever kept but one chunk.
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

from clusters.docker_errors import FOREIGN, fault_of
from clusters.runtime import LogChunk

CHUNK = 64 * 1024
HEADER = 8
SYSTEM_ERROR = 3  # stream number under which the engine says that reading the log failed


def unix_stamp(at: str) -> str:
    """2026-11-20T10:00:00.5Z -> 1795169000.500000000, the form the engine's ``since`` wants; exact to the
    nanosecond."""
    whole, _, fraction = at.rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return f"{seconds}.{fraction.ljust(9, '0')}"


class Frames:
    """Takes the engine's bytes in any cuts, gives chunks in which every stamp's bytes begin a chunk or follow its
    own."""

    def __init__(self) -> None:
        self._rest = b""  # the beginning of a frame
        self._pieces: list[tuple[bytes, bytes]] = []  # stamp and text, read, not yet given out
        self._size = 0

    def feed(self, data: bytes) -> Iterator[LogChunk]:
        """Full chunks only; ``flush`` gives the rest."""
        data = self._rest + data
        start, end, find = 0, len(data), data.find
        while end - start >= HEADER:
            text = start + HEADER
            stop = text + int.from_bytes(data[start + 4 : text], "big")
            if stop > end:
                break
            if data[start] != SYSTEM_ERROR:
                space = find(b" ", text, stop)
                space = stop if space < 0 else space
                size = self._size + max(0, stop - space - 1)
                if size <= CHUNK:  # here and not in a function: this loop sees every line of every log
                    self._pieces.append((data[text:space], data[space + 1 : stop]))
                    self._size = size
                else:
                    yield from self._add(data[text:space], data[space + 1 : stop])
            start = stop
        self._rest = data[start:]

    def flush(self) -> Iterator[LogChunk]:
        """All that is there: the last stamp in a chunk of its own, since more of its bytes may come."""
        run = self._last_run()
        yield from self._give(run)
        yield from self._give(len(self._pieces))

    def _add(self, at: bytes, text: bytes) -> Iterator[LogChunk]:
        if self._pieces and self._size + len(text) > CHUNK:
            if at == self._pieces[-1][0]:
                yield from self._give(self._last_run())
            if self._size + len(text) > CHUNK:
                yield from self._give(len(self._pieces))
        while len(text) > CHUNK:
            yield LogChunk(at.decode("ascii", "replace"), text[:CHUNK])
            text = text[CHUNK:]
        self._pieces.append((at, text))
        self._size += len(text)

    def _last_run(self) -> int:
        """Where the pieces begin that bear the last one's stamp."""
        run = len(self._pieces)
        while run and self._pieces[run - 1][0] == self._pieces[-1][0]:
            run -= 1
        return run

    def _give(self, count: int) -> Iterator[LogChunk]:
        """The first ``count`` pieces as one chunk."""
        if count:
            stamp = self._pieces[0][0].decode("ascii", "replace")
            yield LogChunk(stamp, b"".join([text for _, text in self._pieces[:count]]))
            del self._pieces[:count]
            self._size = sum(len(text) for _, text in self._pieces)


class LogStream(Iterator[LogChunk]):
    """A log being read. ``close`` may come from any thread: the reader then ends. ``done`` gives the client back."""

    def __init__(self, response: requests.Response, endpoint: str, follow: bool, done: Callable[[], object]) -> None:
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
        frames = Frames()
        more_waiting = _waiting(self._socket)
        for data in self._response.raw.stream(CHUNK):
            yield from frames.feed(data)
            if self._follow and not more_waiting():
                yield from frames.flush()
        yield from frames.flush()


def _waiting(connection: Any) -> Callable[[], bool]:
    """Tells whether more has arrived already. A false no only makes a chunk smaller."""
    if hasattr(connection, "recv_ready"):  # SSH
        return lambda: bool(connection.recv_ready())
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return lambda: bool(poll.poll(0))
