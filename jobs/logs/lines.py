"""Finds lines in a log that is too large for memory, by number or by offset, with a few reads each. Pure.

An index holds the number of newlines before each block of 64 KiB. It takes 8 bytes a block and is built while the log
is written. A page of a log of any size then costs one search in the index and the blocks at both ends of the page. Text
behind the last newline is a line too, a partial one. Lines count from 1, bytes from 0.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jobs.logs.text import SHOWN, TextLine, show
from jobs.logs.times import Times

BLOCK = 64 * 1024
_PIECE = 4 * BLOCK  # bytes of a log that are handed on at once


class LineIndex:
    """The index of a log that grows. ``blocks[b]`` is the number of newlines in the first ``b * BLOCK`` bytes."""

    def __init__(self) -> None:
        self.blocks = array("Q")
        self.size = 0
        self.newlines = 0

    @classmethod
    def begun(cls, blocks: array[int]) -> LineIndex:
        """The index of a log of which these blocks are known; it goes on at ``size``, where the last of them begins."""
        index = cls()
        if blocks:
            index.newlines, index.size = blocks[-1], (len(blocks) - 1) * BLOCK
            index.blocks = blocks[:-1]
        return index

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
    """A log as it was at one moment. ``read(offset, limit)`` gives ``limit`` bytes, fewer only at the end. ``times`` is
    None for a log that was archived without them."""

    size: int
    newlines: int
    blocks: Sequence[int]
    read: Callable[[int, int], bytes]
    times: Times | None = None

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from ``start`` up to ``end``, by default all of the log as it was."""
        stop = self.size if end is None else min(end, self.size)
        while start < stop and (data := self.read(start, min(_PIECE, stop - start))):
            yield data
            start += len(data)

    def line_count(self) -> int:
        return self.newlines + (1 if self.size and self.read(self.size - 1, 1) != b"\n" else 0)

    def start_of(self, number: int) -> int:
        """The offset of the line's first byte; the size of the log for a line that it does not have."""
        if number <= 1:
            return 0
        newline = number - 1  # the newline before the line, counted from 1
        if newline > self.newlines:
            return self.size
        block = bisect_left(self.blocks, newline, 0, self._block_count()) - 1
        data = self.read(block * BLOCK, BLOCK)
        return block * BLOCK + _place_of(data, newline - self.blocks[block]) + 1

    def number_at(self, offset: int) -> int:
        """The number of the line that holds the byte at ``offset``."""
        offset = max(0, min(offset, self.size))
        if not self.size:
            return 1
        block = min(offset // BLOCK, self._block_count() - 1)
        data = self.read(block * BLOCK, offset - block * BLOCK)
        return self.blocks[block] + data.count(b"\n") + 1

    def lines(self, first: int, count: int, budget: int = 1 << 20) -> list[TextLine]:
        """Up to ``count`` lines from line ``first`` on, fewer when their shown text exceeds ``budget`` bytes."""
        first = max(1, first)
        return self.lines_at(self.start_of(first), first, count, budget)

    def lines_at(self, offset: int, number: int, count: int, budget: int = 1 << 20) -> list[TextLine]:
        """The lines as ``lines`` gives them, where ``offset`` is known to be the first byte of line ``number``."""
        result: list[TextLine] = []
        while offset < self.size and len(result) < count and budget > 0:
            data = self.read(offset, min(BLOCK, self.size - offset))
            if not data:
                break  # the log became shorter meanwhile
            lines = _split(data, offset, number, count - len(result), budget) or [self._long(offset, number)]
            result += lines
            budget -= sum(len(line.text) + 1 for line in lines)
            offset, number = lines[-1].end, lines[-1].number + 1
        return result

    def _long(self, start: int, number: int) -> TextLine:
        """A line that does not end in the block that begins at ``start``, or has no newline yet."""
        partial = number > self.newlines
        end = self.size if partial else self.start_of(number + 1)
        last = end if partial else end - 1
        head = self.read(start, min(SHOWN, last - start))
        tail = self.read(max(start, last - SHOWN), min(SHOWN, last - start))
        return show(number, start, end, head, tail, partial=partial)

    def _block_count(self) -> int:
        return -(-self.size // BLOCK)


EMPTY = LogView(0, 0, (), lambda offset, limit: b"")


def view_of(index: LineIndex, read: Callable[[int, int], bytes], times: Times | None = None) -> LogView:
    return LogView(index.size, index.newlines, index.blocks, read, times)


def _place_of(data: bytes, newline: int) -> int:
    """Where this newline is, counted from 1. By halves, as lines may be empty: a block has up to 65,536."""
    low, high = 0, len(data)
    while high - low > 1:
        middle = (low + high) // 2
        before = data.count(b"\n", low, middle)
        if before >= newline:
            high = middle
        else:
            low, newline = middle, newline - before
    return low


def _split(data: bytes, offset: int, number: int, count: int, budget: int) -> list[TextLine]:
    """The whole lines of ``data``, at most ``count`` and until ``budget`` is spent."""
    lines: list[TextLine] = []
    at = 0
    while len(lines) < count and budget > 0:
        newline = data.find(b"\n", at)
        if newline < 0:
            break
        raw = data[at:newline]
        line = show(number + len(lines), offset + at, offset + newline + 1, raw[:SHOWN], raw[-SHOWN:], partial=False)
        lines.append(line)
        budget -= len(line.text) + 1
        at = newline + 1
    return lines
