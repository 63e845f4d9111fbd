"""Joins the texts of a log, each with its stamp, to chunks of limited size. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from clusters.engines.logs.stamps import stamp
from clusters.engines.runtime import LogChunk

CHUNK = 64 * 1024  # bytes; no chunk has more


class Chunks:
    """Collects one stream's log. The bytes of each stamp begin a chunk or follow their own. Stamps are in nanoseconds.

    ``last`` is the stamp of the last text. ``beheaded`` is for the next chunk."""

    def __init__(self) -> None:
        self.last = 0
        self.beheaded = False
        self._texts: list[bytes] = []  # those that are not in a chunk yet ...
        self._times: list[int] = []  # ... and their stamps
        self._size = 0

    def add(self, at: int, text: bytes) -> Iterator[LogChunk]:
        """Give the chunks that are full, or that must end before this text."""
        if at < self.last:
            yield from self._give(len(self._texts))
        self.last = at
        if self._texts and self._size + len(text) > CHUNK:
            if at == self._times[-1]:
                yield from self.settled()
            if self._size + len(text) > CHUNK:
                yield from self._give(len(self._texts))
        while len(text) > CHUNK:
            yield self._chunk([text[:CHUNK]], [at])
            text = text[CHUNK:]
        self._texts.append(text)
        self._times.append(at)
        self._size += len(text)

    def take(self, texts: list[bytes], times: list[int], size: int) -> bool:
        """Add many texts at once, of ``size`` bytes together. False, and nothing is taken, when they have no room in
        one chunk, or one is before another in time."""
        if self._size + size > CHUNK or times[0] < self.last or times != sorted(times):
            return False
        self.last = times[-1]
        self._texts += texts
        self._times += times
        self._size += size
        return True

    def settled(self) -> Iterator[LogChunk]:
        """All but the bytes of the last stamp, as more of them may come."""
        run = len(self._times)
        while run and self._times[run - 1] == self._times[-1]:
            run -= 1
        yield from self._give(run)

    def flush(self) -> Iterator[LogChunk]:
        """All that was added. The bytes of the last stamp are a chunk of their own."""
        yield from self.settled()
        yield from self._give(len(self._texts))

    def _give(self, count: int) -> Iterator[LogChunk]:
        """The first ``count`` texts as one chunk."""
        if count:
            chunk = self._chunk(self._texts[:count], self._times[:count])
            del self._texts[:count], self._times[:count]
            self._size -= len(chunk.data)
            yield chunk

    def _chunk(self, texts: list[bytes], times: list[int]) -> LogChunk:
        beheaded, self.beheaded = self.beheaded, False
        data = b"".join(texts)
        return LogChunk(stamp(times[0]), data, beheaded, _of_lines(data, texts, times))


def _of_lines(data: bytes, texts: list[bytes], times: list[int]) -> array[int]:
    """The stamp of each line that is in ``data``, whole or in part. Most lines are one text, and a long one several."""
    newlines = data.count(b"\n")
    if newlines + (not data.endswith(b"\n")) == len(times):
        return array("q", times)
    stamps, begins = array("q"), True
    for text, at in zip(texts, times, strict=True):
        parts = text.count(b"\n") + (not text.endswith(b"\n"))
        stamps.extend([at] * (parts - (not begins)))
        begins = text.endswith(b"\n")
    return stamps
