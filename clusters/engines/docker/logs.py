"""Reads a container's log from an engine: takes frames apart and stamps off, and gives the bytes exactly as they were
written.

The engine sends one frame for each line, or for each 16 KiB of a longer line. A frame has a header of 8 bytes and
begins with its stamp. No more than one chunk of a log is in memory, of a short one all. The mark with which a container
begins its log (LOG_MARK) is taken off; a log without it has lost its beginning.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import add

import requests

from clusters.engines.docker.errors import FOREIGN, fault_of
from clusters.engines.faults import short
from clusters.engines.logs.chunks import CHUNK, Chunks
from clusters.engines.logs.stamps import SECOND, Seconds, nanoseconds
from clusters.engines.logs.stream import LogStream, more_waiting
from clusters.engines.runtime import LOG_MARK, FaultReason, LogChunk, RuntimeFault, Stream

HEADER = 8
SHORT = 1 << 20  # bytes of a log of which both streams are read together
_STREAMS: Mapping[int, Stream] = {1: "stdout", 2: "stderr"}  # by their numbers
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
    """Takes the engine's bytes in pieces of any size. ``is_beheaded`` is asked with the first stamp when a log is read
    from its beginning and has no mark there.

    Many short lines that have arrived together are taken apart at once (``_many``), which is faster than one by one."""

    def __init__(self, is_beheaded: Callable[[str], bool] | None = None) -> None:
        self._rest = b""  # the beginning of a frame
        self._chunks = Chunks()
        self._is_beheaded = is_beheaded  # until the first frame is here

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
            yield from self._chunks.settled()
        while end - start >= HEADER:
            text = start + HEADER
            stop = text + int.from_bytes(data[start + 4 : text], "big")
            if stop > end:
                break
            if data[start] == SYSTEM_ERROR:
                yield from self.flush()
                raise _unreadable(data[text:stop])
            at, _, line = data[text:stop].partition(b" ")
            yield from self._chunks.add(self._time(at), line)
            start = stop
        self._rest = data[start:]

    def flush(self) -> Iterator[LogChunk]:
        """All that has arrived."""
        yield from self._chunks.flush()

    def _without_mark(self, data: bytes) -> bytes:
        """Once the first frame is here."""
        stop = HEADER + int.from_bytes(data[4:HEADER], "big")
        if len(data) < max(HEADER, stop) or self._is_beheaded is None:
            return data
        at, _, text = data[HEADER:stop].partition(b" ")
        marked, is_beheaded, self._is_beheaded = text == f"{LOG_MARK}\n".encode(), self._is_beheaded, None
        self._chunks.beheaded = not marked and data[0] != SYSTEM_ERROR and is_beheaded(at.decode("ascii", "replace"))
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
        size: int = sum(sizes)
        is_taken = self._chunks.take(texts, times, size - _STAMP * len(sizes))
        return size + HEADER * len(sizes) if is_taken else 0

    def _time(self, at: bytes) -> int:
        try:
            return nanoseconds(at)
        except ValueError:
            return self._chunks.last


def docker_log(
    response: requests.Response,
    endpoint: str,
    follow: bool,
    done: Callable[[], object],
    is_beheaded: Callable[[str], bool] | None = None,
) -> LogStream:
    """The log that is the answer. ``done`` gives the client back. ``is_beheaded`` is that of Frames."""
    frames, connection = Frames(is_beheaded), response.raw.connection.sock

    def read() -> Iterator[LogChunk]:
        has_more = more_waiting(connection)
        for data in response.raw.stream(CHUNK):
            yield from frames.feed(data)
            if follow and not has_more():
                yield from frames.flush()
        yield from frames.flush()
        if frames.in_a_frame:
            raise EOFError("the log ended in the middle of a line")

    def hang_up() -> None:
        if response.raw.connection is not None:  # one whose answer was read to its end may be somebody else's by now
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        response.close()
        done()

    return LogStream(read(), hang_up, lambda error: fault_of(error, endpoint), follow=follow, foreign=FOREIGN)


def short_log(
    response: requests.Response, is_beheaded: Callable[[str], bool]
) -> Mapping[Stream, Sequence[LogChunk]] | None:
    """Both streams of the log that is the answer; None if they have more than SHORT bytes, or do not come whole."""
    data, start = bytearray(), 0
    with response:
        if not response.raw.chunked:  # the connection broke in the head of the answer, and this is no empty log
            return None
        for piece in response.raw.stream(CHUNK):
            data += piece
            if len(data) > SHORT:
                return None
    parts: dict[Stream, list[bytearray]] = {"stdout": [], "stderr": []}
    while start < len(data):
        stop = start + HEADER + int.from_bytes(data[start + 4 : start + HEADER], "big")
        if stop > len(data) or data[start] not in _STREAMS:
            return None
        parts[_STREAMS[data[start]]].append(data[start:stop])
        start = stop
    return {stream: _all(Frames(is_beheaded), b"".join(some)) for stream, some in parts.items()}


def _all(frames: Frames, data: bytes) -> Sequence[LogChunk]:
    return [*frames.feed(data), *frames.flush()]


def _unreadable(said: bytes) -> RuntimeFault:
    text = short(said.decode("utf-8", "replace"))
    return RuntimeFault(f"The engine cannot read the log to its end: {text}", reason=FaultReason.REFUSED)
