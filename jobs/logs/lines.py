"""Lines of a log too large to hold: any line, the last lines, the line at an offset, each in a few reads.

Pure. The index is the number of newlines before each block of 64 KiB: 8 bytes a block, built while the log is written,
so a page of any size of log costs one search in it and one block read on either side. A line is what ends in a newline;
what follows the last newline is a line too, a partial one. Lines count from 1, bytes from 0.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.logs.text import SHOWN, Line, show

BLOCK = 64 * 1024


class LineIndex:
    """Grows with its log. ``blocks[b]`` is the number of newlines in the first ``b * BLOCK`` bytes."""

    def __init__(self) -> None:
        self.blocks = array("Q")
        self.size = 0
        self.newlines = 0

    def extend(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            if self.size % BLOCK == 0:
                self.blocks.append(self.newlines)
            taken = min(len(data) - start, BLOCK - self.size % BLOCK)
            self.newlines += data.count(b"\n", start, start + taken)
            self.size += taken
            start += taken


@dataclass(frozen=True, slots=True)
class LogView:
    """A log as it was at one moment. ``read(offset, limit)`` gives ``limit`` bytes, fewer only at the end."""

    size: int
    newlines: int
    blocks: Sequence[int]
    read: Callable[[int, int], bytes]

    def line_count(self) -> int:
        return self.newlines + (1 if self.size and self.read(self.size - 1, 1) != b"\n" else 0)

    def start_of(self, number: int) -> int:
        """Offset of the line's first byte; the size of the log for a line it does not have."""
        if number <= 1:
            return 0
        newline = number - 1  # the one before the line
        if newline > self.newlines:
            return self.size
        block = bisect_left(self.blocks, newline, 0, self._block_count()) - 1
        data = self.read(block * BLOCK, BLOCK)
        at = -1
        for _ in range(newline - self.blocks[block]):
            at = data.index(b"\n", at + 1)
        return block * BLOCK + at + 1

    def number_at(self, offset: int) -> int:
        """Number of the line that holds the byte at ``offset``."""
        offset = max(0, min(offset, self.size))
        if not self.size:
            return 1
        block = min(offset // BLOCK, self._block_count() - 1)
        data = self.read(block * BLOCK, offset - block * BLOCK)
        return self.blocks[block] + data.count(b"\n") + 1

    def lines(self, first: int, count: int, budget: int = 1 << 20) -> list[Line]:
        """Up to ``count`` lines from line ``first`` on, and no more once they hold ``budget`` shown bytes."""
        first = max(1, first)
        return self.lines_at(self.start_of(first), first, count, budget)

    def lines_at(self, offset: int, number: int, count: int, budget: int = 1 << 20) -> list[Line]:
        """As ``lines``, where ``offset`` is known to be the first byte of line ``number``."""
        found: list[Line] = []
        while offset < self.size and len(found) < count and budget > 0:
            data = self.read(offset, min(BLOCK, self.size - offset))
            if not data:
                break  # cut short behind our back: nothing more to show
            lines = _split(data, offset, number, count - len(found), budget) or [self._long(offset, number)]
            found += lines
            budget -= sum(len(line.text) + 1 for line in lines)
            offset, number = lines[-1].end, lines[-1].number + 1
        return found

    def _long(self, start: int, number: int) -> Line:
        """A line that reaches over the block just read, or has no newline yet."""
        partial = number > self.newlines
        end = self.size if partial else self.start_of(number + 1)
        last = end if partial else end - 1
        head = self.read(start, min(SHOWN, last - start))
        tail = self.read(max(start, last - SHOWN), min(SHOWN, last - start))
        return show(number, start, end, head, tail, partial=partial)

    def _block_count(self) -> int:
        return -(-self.size // BLOCK)


def view_of(index: LineIndex, read: Callable[[int, int], bytes]) -> LogView:
    return LogView(index.size, index.newlines, index.blocks, read)


def _split(data: bytes, offset: int, number: int, count: int, budget: int) -> list[Line]:
    """The whole lines of ``data``, at most ``count`` and until ``budget`` is spent."""
    found: list[Line] = []
    at = 0
    while len(found) < count and budget > 0:
        newline = data.find(b"\n", at)
        if newline < 0:
            break
        raw = data[at:newline]
        line = show(number + len(found), offset + at, offset + newline + 1, raw[:SHOWN], raw[-SHOWN:], partial=False)
        found.append(line)
        budget -= len(line.text) + 1
        at = newline + 1
    return found
