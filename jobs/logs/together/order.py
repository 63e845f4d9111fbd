"""Puts the lines of several logs in one order, by time, of which any part is found without looking at the rest. Pure.

The place of a line in this order is its *rank*, from 0. Lines are ordered by the key of their time
(jobs/logs/times.py), those of one time by their log, then by their number. A rank is found by halving the time between
the first and the last line until the lines before it are as many as wanted: a few reads of each log, however many lines
they have.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice

from jobs.logs.times import EVERY, Times

_AHEAD = 256  # keys read at once


class LineOrder:
    """The order of the lines of these logs, each a ``Times``."""

    def __init__(self, logs: Sequence[Times]) -> None:
        self._logs = logs
        self.total = sum(log.count for log in logs)

    def before(self, rank: int) -> list[int]:
        """How many lines of each log have a smaller rank."""
        rank = max(0, min(rank, self.total))
        if len(self._logs) == 1:
            return [rank]
        if rank == self.total:
            return [log.count for log in self._logs]
        key = self._key_at(rank)
        counts = [log.up_to(key - 1) for log in self._logs]
        left = rank - sum(counts)
        for number, log in enumerate(self._logs):  # lines of the same time: one log after the other
            taken = min(left, log.up_to(key) - counts[number])
            counts[number] += taken
            left -= taken
        return counts

    def rank(self, log: int, line: int) -> int:
        """The rank of line ``line`` (from 0) of a log, which has it."""
        if len(self._logs) == 1:
            return line
        key = self._logs[log].key(line)
        earlier = (
            line if number == log else other.up_to(key if number < log else key - 1)
            for number, other in enumerate(self._logs)
        )
        return sum(earlier)

    def at(self, key: int) -> int:
        """How many lines are of an earlier time."""
        return sum(log.up_to(key - 1) for log in self._logs)

    def lines(self, rank: int, count: int) -> list[tuple[int, int]]:
        """Return (log, line from 0) of each rank from ``rank`` on, ``count`` of them; fewer at the end."""
        begins = self.before(rank)
        runs = [self._run(number, begin) for number, begin in enumerate(begins)]
        merged = runs[0] if len(runs) == 1 else heapq.merge(*runs)
        return [(log, line) for _, log, line in islice(merged, max(0, count))]

    def _run(self, number: int, line: int) -> Iterator[tuple[int, int, int]]:
        log = self._logs[number]
        while line < log.count:
            for key in log.keys(line, _AHEAD):
                yield key, number, line
                line += 1

    def _key_at(self, rank: int) -> int:
        """The key of the line with this rank: the smallest with more than ``rank`` lines up to it."""
        low, high = 0, max(log.key(log.count - 1) for log in self._logs if log.count)
        while low < high:
            middle = (low + high) // 2
            if self._has_more(middle, rank):
                high = middle
            else:
                low = middle + 1
        return low

    def _has_more(self, key: int, rank: int) -> bool:
        """Whether more than ``rank`` lines are not later than ``key``."""
        if len(self._logs) * EVERY < self.total:
            ranges = [log.about(key) for log in self._logs]
            if sum(least for least, _ in ranges) > rank:
                return True
            if sum(most for _, most in ranges) <= rank:
                return False
        return sum(log.up_to(key) for log in self._logs) > rank
