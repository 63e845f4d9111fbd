"""How long do jobs run? Learnt from attempts that ended, as quantiles. Pure.

Jobs of the like are those of the same user whose names differ in digits only and that have as many GPUs, then all of
the user, then all of the virtual cluster, then all. The fewer a class has, the more the wider one counts. Few attempts
say little of how much others will differ from them, so the fewer there are, the wider is the spread around each.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from math import exp, inf, sqrt
from typing import NamedTuple, Protocol

DRAWS = 23  # quantiles of each length; a prime, so that every step through them visits all
_ENOUGH = 5  # with so many ended attempts a class counts as much as all wider ones together
_MOST = 100  # attempts of a class that count, the newest
_LONGEST = 90 * 86_400.0  # seconds
# What is taken for the standard deviation of a length's logarithm where nothing is known, and the places in a normal
# distribution that stand for it, all as likely.
_UNSURE = 1.0
_AROUND = (-1.28, -0.52, 0.0, 0.52, 1.28)
_DIGITS = re.compile(r"[0-9]+")


class LikeJobs(NamedTuple):
    """The properties by which two jobs count as alike."""

    username: str
    name: str
    gpus: int
    vc: str


class HasLike(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def like(self) -> LikeJobs: ...


_Classes = tuple[tuple[object, ...], ...]


_Weighted = tuple[float, float, int]  # a length that an attempt had, its weight, and how many there are in its class


class Lengths:
    """``ended`` are attempts that ended by themselves or were stopped, the newest first, with their seconds."""

    def __init__(self, ended: Iterable[tuple[LikeJobs, float]]) -> None:
        self._of: dict[tuple[object, ...], list[float]] = {}
        for like, seconds in ended:
            for key in _classes(like):
                samples = self._of.setdefault(key, [])
                if len(samples) < _MOST:
                    samples.append(seconds)
        for samples in self._of.values():
            samples.sort()
        self._spreads: dict[tuple[_Classes, int], tuple[list[float], float]] = {}
        self._new: dict[_Classes, list[float]] = {}  # of those that have not begun, which are most
        self._edges: dict[_Classes, list[float]] = {}  # between two of them the likely length stays the same
        self._likely: dict[tuple[_Classes, float], float] = {}
        self._of_job: dict[int, tuple[object, datetime, float, float, datetime]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def number(self, like: LikeJobs) -> int:
        """How many attempts of the narrowest class are known."""
        return len(self._of.get(_classes(like)[0], ()))

    def quantiles(self, like: LikeJobs, ran: float = 0.0, most: float | None = None) -> Sequence[float]:
        """DRAWS lengths in seconds, all as likely, shortest first, of a job that has run for ``ran`` seconds already
        and may run for ``most``. Where nothing ran as long nobody knows: it goes on for ever, as far as can be told.
        Any other guess would slide with the clock."""
        classes = _classes(like)
        key = classes, bisect_right(self._edges_of(classes), ran) if ran > 0 else -1
        if key not in self._spreads:
            weighted = self._weighted(classes, ran)
            self._spreads[key] = _quantiles(weighted, range(DRAWS)), _unsure(weighted)
        middle, unsure = self._spreads[key]
        lengths = None if ran > 0 else self._new.get(classes)
        if lengths is None:
            lengths = _widened(middle, unsure, ran) if middle else [inf] * DRAWS
            if ran == 0:
                self._new[classes] = lengths
        return [min(each, most) for each in lengths] if most is not None else lengths

    def likely_end(self, job: HasLike, began: datetime, now: datetime) -> datetime:
        """When a job that began then likely ends: after the median of ``quantiles``. It is worked out again only for
        another object or beginning, or where the median is another by ``now``."""
        ran, known = max(0.0, (now - began).total_seconds()), self._of_job.get(job.id)
        if known is None or known[0] is not job or known[1] != began or not known[2] <= ran < known[3]:
            first, last, length = self._span(_classes(job.like), ran)
            known = self._of_job[job.id] = job, began, first, last, began + timedelta(seconds=length)
        return known[4]

    def _span(self, classes: _Classes, ran: float) -> tuple[float, float, float]:
        """(from, to, length): the likely length after ``ran`` seconds, which is the same after any time from ``from``
        up to, but not including, ``to``."""
        first, last = 0.0, inf  # lengths of the like: between two of them the likely one stays the same
        for samples in [self._of[key] for key in classes if key in self._of]:
            at = bisect_right(samples, ran)
            first = max(first, samples[at - 1]) if at else first
            last = min(last, samples[at]) if at < len(samples) else last
        if last == inf:
            return ran, ran, self._median(classes, ran)
        if (classes, last) not in self._likely:
            self._likely[classes, last] = self._median(classes, ran)
        return first, last, self._likely[classes, last]

    def _edges_of(self, classes: _Classes) -> list[float]:
        edges = self._edges.get(classes)
        if edges is None:
            edges = sorted({each for key in classes for each in self._of.get(key, ())})
            self._edges[classes] = edges
        return edges

    def _median(self, classes: _Classes, ran: float) -> float:
        middle = _quantiles(self._weighted(classes, ran), [DRAWS // 2])
        return middle[0] if middle else _unheard_of(ran)

    def _weighted(self, classes: _Classes, ran: float) -> list[_Weighted]:
        """The lengths of those that ran longer than ``ran``, the shortest first."""
        weighted: list[_Weighted] = []
        left = 1.0
        for key in classes:
            samples = self._of.get(key, [])
            longer = samples[bisect_right(samples, ran) :] if ran > 0 else samples
            if longer:
                weight = left * len(longer) / (len(longer) + _ENOUGH)
                weighted += zip(longer, repeat(weight / len(longer)), repeat(len(longer)))  # thousands in a pass
                left -= weight
        weighted.sort()
        return weighted


def stem(name: str) -> str:
    """A job's name without its digits."""
    return _DIGITS.sub("#", name)


def _classes(like: LikeJobs) -> _Classes:
    """Return the classes of such a job, the narrowest first."""
    return ((like.username, stem(like.name), like.gpus), (like.username,), ("", like.vc), ())


def _unheard_of(ran: float) -> float:
    """The likely length, as far as plans need one, of a job that has run for longer than all of the like did."""
    return min(_LONGEST, 2 * max(ran, 60.0))


def _unsure(weighted: Sequence[_Weighted]) -> float:
    """The standard deviation of the logarithm around each length; smaller, the more attempts there were."""
    whole = sum(weight for _, weight, _ in weighted)
    return _UNSURE / sqrt(1 + sum(weight * among for _, weight, among in weighted) / whole) if whole else 0.0


def _widened(middle: Sequence[float], unsure: float, ran: float) -> list[float]:
    """DRAWS quantiles, each of which was sure before, with what is likely around them. What remains is what nobody is
    sure of: the job has run for ``ran``."""
    factors = [exp(unsure * step) for step in _AROUND]
    around = sorted([ran + (each - ran) * factor for each in middle for factor in factors])
    return [min(_LONGEST, each) for each in around[len(_AROUND) // 2 :: len(_AROUND)]]


def _quantiles(weighted: Sequence[_Weighted], draws: Iterable[int]) -> list[float]:
    """Return the lengths at these draws; nothing where nothing is known."""
    whole = sum([weight for _, weight, _ in weighted])
    lengths: list[float] = []
    passed, values = 0.0, iter(weighted)
    length = weighted[0][0] if weighted else 0.0
    for draw in draws if weighted else ():
        part = (draw + 0.5) / DRAWS * whole
        while passed < part:
            length, weight, _ = next(values, (weighted[-1][0], whole, 0))
            passed += weight
        lengths.append(length)
    return lengths
