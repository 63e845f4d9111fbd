"""Reads a container's log from an engine: takes frames apart and stamps off, and gives the bytes exactly as they were
written.

The engine sends one frame for each line, or for each 16 KiB of a longer line. A frame has a header of 8 bytes and
begins with its stamp. No more than one chunk of a log is in memory. The mark with which a container begins its log
(MARK of the module request) is taken off; a log without it has lost its beginning.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from array import array
from collections.abc import Callable, Iterator
from operator import add
from typing import Any

import requests

from clusters.engines.docker.errors import FOREIGN, fault_of
from clusters.engines.docker.request import MARK
from clusters.engines.faults import short
from clusters.engines.runtime import FaultReason, LogChunk, RuntimeFault
from clusters.engines.stamps import SECOND, Seconds, nanoseconds, stamp

CHUNK = 64 * 1024
HEADER = 8
SYSTEM_ERROR = 3  # the number of the stream on which the engine reports that it cannot read the log
_HEAD = struct.Struct(">I19sc9s2s")  # length, second, ".", fraction, "Z "
_BEFORE = _HEAD.size  # bytes before a text, without the first four of a head, which all frames of a stream share
_STAMP = 31  # bytes of a stamp and the space behind it
_WORTH_IT = 1024  # bytes; of fewer, one frame after the other is as fast
_SECONDS = Seconds()


def unix_stamp(at: str) -> str:
    """2026-11-20T10:00:00.5Z -> 1795169000.500000000, the form the engine's ``since`` wants; exact to the
    nanosecond."""
    seconds, fraction = divmod(nanoseconds(at), SECOND)
    return f"{seconds}.{fraction:09d}"


class Frames:
    """Takes the engine's bytes in pieces of any size. In the chunks that it gives, the bytes of each stamp begin a
    chunk or follow their own. ``is_beheaded`` is asked with the first stamp when a log is read from its beginning and
    has no mark there.

    Many short lines that have arrived together are taken apart at once (``_many``), several times faster than one by
    one."""

    def __init__(self, is_beheaded: Callable[[str], bool] | None = None) -> None:
        self._rest = b""  # the beginning of a frame
        self._texts: list[bytes] = []  # of frames that are not in a chunk yet ...
        self._times: list[int] = []  # ... and their stamps
        self._size = 0
        self._last = 0  # stamp
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
        start, end = self._many(data), len(data)
        if start:
            yield from self._give(self._last_run())
        while end - start >= HEADER:
            text = start + HEADER
            stop = text + int.from_bytes(data[start + 4 : text], "big")
            if stop > end:
                break
            if data[start] == SYSTEM_ERROR:
                yield from self.flush()
                raise _unreadable(data[text:stop])
            at, _, line = data[text:stop].partition(b" ")
            yield from self._add(self._time(at), line)
            start = stop
        self._rest = data[start:]

    def flush(self) -> Iterator[LogChunk]:
        """All that has arrived. The bytes of the last stamp are a chunk of their own, since more of them may come."""
        run = self._last_run()
        yield from self._give(run)
        yield from self._give(len(self._texts))

    def _without_mark(self, data: bytes) -> bytes:
        """Once the first frame is here."""
        stop = HEADER + int.from_bytes(data[4:HEADER], "big")
        if len(data) < max(HEADER, stop) or self._is_beheaded is None:
            return data
        at, _, text = data[HEADER:stop].partition(b" ")
        marked, is_beheaded, self._is_beheaded = text == f"{MARK}\n".encode(), self._is_beheaded, None
        self._beheaded = not marked and data[0] != SYSTEM_ERROR and is_beheaded(at.decode("ascii", "replace"))
        return data[stop:] if marked else data

    def _many(self, data: bytes) -> int:
        """Take all frames but the last, when they are what an engine usually sends: whole lines, none before the last
        one in time. Returns the bytes taken; 0 leaves everything to ``feed``, which takes any frame."""
        if len(data) < _WORTH_IT or data[0] == SYSTEM_ERROR:
            return 0
        parts = data.split(data[:4])[1:-1]  # what is between two heads: length, stamp, text
        texts = [part[_BEFORE:] for part in parts]
        heads = b"".join([part[:_BEFORE] for part in parts])
        if not parts or len(heads) != _BEFORE * len(parts):
            return 0
        sizes, seconds, dots, fractions, ends = zip(*_HEAD.iter_unpack(heads), strict=True)
        if [len(text) + _STAMP for text in texts] != list(sizes) or {*dots} != {b"."} or {*ends} != {b"Z "}:
            return 0  # a text that looks like a head, or another form of stamps
        try:
            times = [*map(add, map(_SECONDS.__getitem__, seconds), map(int, fractions))]
        except ValueError:
            return 0
        taken: int = sum(sizes) + HEADER * len(sizes)
        room = CHUNK - self._size - (taken - (HEADER + _STAMP) * len(sizes))
        if room < 0 or times[0] < self._last or times != sorted(times):
            return 0
        self._size, self._last = CHUNK - room, times[-1]
        self._texts += texts
        self._times += times
        return taken

    def _time(self, at: bytes) -> int:
        try:
            return nanoseconds(at)
        except ValueError:
            return self._last

    def _add(self, at: int, text: bytes) -> Iterator[LogChunk]:
        if at < self._last:
            yield from self._give(len(self._texts))
        self._last = at
        if self._texts and self._size + len(text) > CHUNK:
            if at == self._times[-1]:
                yield from self._give(self._last_run())
            if self._size + len(text) > CHUNK:
                yield from self._give(len(self._texts))
        while len(text) > CHUNK:
            yield self._chunk([text[:CHUNK]], [at])
            text = text[CHUNK:]
        self._texts.append(text)
        self._times.append(at)
        self._size += len(text)

    def _last_run(self) -> int:
        """Where the texts with the last stamp begin."""
        run = len(self._times)
        while run and self._times[run - 1] == self._times[-1]:
            run -= 1
        return run

    def _give(self, count: int) -> Iterator[LogChunk]:
        """The first ``count`` texts as one chunk."""
        if count:
            chunk = self._chunk(self._texts[:count], self._times[:count])
            del self._texts[:count], self._times[:count]
            self._size -= len(chunk.data)
            yield chunk

    def _chunk(self, texts: list[bytes], times: list[int]) -> LogChunk:
        beheaded, self._beheaded = self._beheaded, False
        data = b"".join(texts)
        return LogChunk(stamp(times[0]), data, beheaded, _of_lines(data, texts, times))


def _of_lines(data: bytes, texts: list[bytes], times: list[int]) -> array[int]:
    """The stamp of each line that is in ``data``, whole or in part. An engine gives each line a frame of its own, and a
    long line several."""
    newlines = data.count(b"\n")
    if newlines + (not data.endswith(b"\n")) == len(times):
        return array("q", times)
    stamps, begins = array("q"), True
    for text, at in zip(texts, times, strict=True):
        parts = text.count(b"\n") + (not text.endswith(b"\n"))
        stamps.extend([at] * (parts - (not begins)))
        begins = text.endswith(b"\n")
    return stamps


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
