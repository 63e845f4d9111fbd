"""Says when each line of a log was written, and how many lines were written up to a moment. Pure.

A log has one number of 8 bytes for each line, in order: the engine's stamp of its first byte, in nanoseconds. A node's
clock may be set back, so the numbers do not always grow. Lines are put in order by their *key*, which is the greatest
stamp so far: it never falls, so lines of one log never change places. ``tops`` holds the key before each block of EVERY
lines, so the key of any line costs one block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from clusters.engines.logs.stamps import nanoseconds
from clusters.engines.runtime import LogChunk

EVERY = 2048
WIDTH = 8  # bytes of one number
_BLOCKS_KEPT = 2048  # of all logs of the process, 80 KB each at most


def begun(chunk: LogChunk, skipped: int, at_start: bool) -> array[int]:
    """The stamps of the lines that begin in ``chunk`` behind its first ``skipped`` bytes. ``at_start``: whether a line
    begins with the chunk's first byte."""
    data = chunk.data
    if chunk.times:
        times = array("q", chunk.times)
    else:
        lines = data.count(b"\n") + bool(data and not data.endswith(b"\n"))
        times = array("q", [nanoseconds(chunk.at)]) * lines
    before = data.count(b"\n", 0, skipped - 1) + 1 if skipped else int(not at_start)
    return times[before:]


class TimeIndex:
    """The tops of a log that grows. ``tops[b]`` is the greatest of the first ``b * EVERY`` numbers, 0 of none."""

    def __init__(self) -> None:
        self.tops = array("q", [0])
        self.count = 0
        self._top = 0

    def extend(self, times: Sequence[int]) -> None:
        """Take the numbers of the next lines."""
        start = 0
        while start < len(times):
            taken = min(len(times) - start, EVERY - self.count % EVERY)
            self._top = max(self._top, *times[start : start + taken])
            self.count += taken
            start += taken
            if self.count % EVERY == 0:
                self.tops.append(self._top)


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a log as they were at one moment. ``read(first, count)`` gives the numbers of ``count`` lines from
    line ``first`` on (from 0). ``name`` is the same for the same log, whose numbers only become more: all Times of one
    log are equal, so that its blocks are known again."""

    count: int = field(compare=False)
    tops: Sequence[int] = field(compare=False)
    read: Callable[[int, int], Sequence[int]] = field(compare=False)
    name: str

    def of(self, first: int, count: int) -> Sequence[int]:
        """The stamps of ``count`` lines from line ``first`` on, counted from 0; fewer at the end."""
        return self.read(first, max(0, min(count, self.count - first)))

    def key(self, line: int) -> int:
        """The key of a line, counted from 0."""
        return self._keys(line // EVERY)[line % EVERY]

    def keys(self, first: int, count: int) -> list[int]:
        """The keys of the lines whose stamps ``of`` gives."""
        result: list[int] = []
        stop = min(first + count, self.count)
        while first < stop:
            block, within = divmod(first, EVERY)
            result += self._keys(block)[within : within + stop - first]
            first = (block + 1) * EVERY
        return result

    def up_to(self, key: int) -> int:
        """How many lines have a key that is not greater."""
        block = max(0, bisect_right(self.tops, key) - 1)
        return min(self.count, block * EVERY + bisect_right(self._keys(block), key))

    def about(self, key: int) -> tuple[int, int]:
        """The two numbers between which ``up_to`` is; it costs no block."""
        block = max(0, bisect_right(self.tops, key) - 1)
        return min(self.count, block * EVERY), min(self.count, (block + 1) * EVERY)

    def _keys(self, block: int) -> list[int]:
        first = block * EVERY
        if first >= self.count:
            return []
        return _block(self, block, min(EVERY, self.count - first), self.tops[block])


def no_times(count: int, at: int) -> Times:
    """The times of a log of which none are known: all its lines have the time ``at``."""
    tops = array("q", [0]) + array("q", [at]) * (count // EVERY)
    return Times(count, tops, lambda first, count: [at] * count, f"{at}")


@lru_cache(_BLOCKS_KEPT)
def _block(times: Times, block: int, count: int, top: int) -> list[int]:
    """The keys of ``count`` lines of a block."""
    return list(accumulate(times.read(block * EVERY, count), max, initial=top))[1:]
