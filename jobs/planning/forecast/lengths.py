"""How long do jobs run? Learnt from attempts that ended, as quantiles. Pure.

Jobs of the like are those of the same user whose names differ in digits only and that have as many GPUs, then all of
the user, then all of the virtual cluster, then all. The fewer a class has, the more the wider one counts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

DRAWS = 23  # quantiles of each length; a prime, so that every step through them visits all
_ENOUGH = 5  # with so many ended attempts a class counts as much as all wider ones together
_MOST = 100  # attempts of a class that count, the newest
_LONGEST = 90 * 86_400.0  # seconds
_DIGITS = re.compile(r"[0-9]+")


class Like(NamedTuple):
    """What jobs of the like have in common."""

    username: str
    name: str
    gpus: int
    vc: str


class Job(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def like(self) -> Like: ...


_Classes = tuple[tuple[object, ...], ...]


class Lengths:
    """``ended`` are attempts that ended by themselves or were stopped, the newest first, with their seconds."""

    def __init__(self, ended: Iterable[tuple[Like, float]]) -> None:
        self._of: dict[tuple[object, ...], list[float]] = {}
        for like, seconds in ended:
            for key in _classes(like):
                found = self._of.setdefault(key, [])
                if len(found) < _MOST:
                    found.append(seconds)
        for found in self._of.values():
            found.sort()
        self._fresh: dict[Like, list[float]] = {}
        self._edges: dict[_Classes, list[float]] = {}  # between two of them the likely length stays the same
        self._likely: dict[tuple[_Classes, int], float] = {}
        self._of_job: dict[int, tuple[object, float, float, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def number(self, like: Like) -> int:
        """How many attempts of the narrowest class are known."""
        return len(self._of.get(_classes(like)[0], ()))

    def quantiles(self, like: Like, ran: float = 0.0, most: float | None = None) -> Sequence[float]:
        """DRAWS lengths in seconds, all as likely, shortest first, of a job that has run for ``ran`` seconds already
        and may run for ``most``. Where nothing ran as long, it goes on for about as long as it has run."""
        if ran > 0:
            found = self._mixed(_classes(like), ran)
        else:
            found = self._fresh.get(like) or self._fresh.setdefault(like, self._mixed(_classes(like), 0.0))
        return [min(each, most) for each in found] if most is not None else found

    def likely(self, like: Like, ran: float = 0.0) -> float:
        """The median of ``quantiles``, in seconds. Little work when it is asked for again and again."""
        return self._span(_classes(like), ran)[2]

    def likely_of(self, job: Job, ran: float) -> float:
        """``likely`` of one job. It is worked out again only for another object, or where the median is another by
        then."""
        known = self._of_job.get(job.id)
        if known is None or known[0] is not job or not known[1] <= ran < known[2]:
            known = self._of_job[job.id] = job, *self._span(_classes(job.like), ran)
        return known[3]

    def _span(self, classes: _Classes, ran: float) -> tuple[float, float, float]:
        """The likely length after ``ran`` seconds, third; it is the same from the first to before the second."""
        edges = self._edges.get(classes)
        if edges is None:
            edges = sorted({each for key in classes for each in self._of.get(key, ())})
            self._edges[classes] = edges
        at = bisect_right(edges, ran)
        if at == len(edges):
            return ran, ran, self._mixed(classes, ran, [DRAWS // 2])[0]
        if (classes, at) not in self._likely:
            self._likely[classes, at] = self._mixed(classes, ran, [DRAWS // 2])[0]
        return edges[at - 1] if at else 0.0, edges[at], self._likely[classes, at]

    def _mixed(self, classes: _Classes, ran: float, draws: Iterable[int] = range(DRAWS)) -> list[float]:
        weighted: list[tuple[float, float]] = []
        left = 1.0
        for key in classes:
            samples = self._of.get(key, [])
            longer = samples[bisect_right(samples, ran) :] if ran > 0 else samples
            if longer:
                weight = left * len(longer) / (len(longer) + _ENOUGH)
                weighted += [(each, weight / len(longer)) for each in longer]
                left -= weight
        if not weighted:
            return [min(_LONGEST, max(ran, 60.0) / (1 - _part(draw))) for draw in draws]
        return _quantiles(sorted(weighted), draws)


def stem(name: str) -> str:
    """A job's name without its digits."""
    return _DIGITS.sub("#", name)


def _classes(like: Like) -> _Classes:
    """Narrowest first."""
    return ((like.username, stem(like.name), like.gpus), (like.username,), ("", like.vc), ())


def _part(draw: int) -> float:
    return (draw + 0.5) / DRAWS


def _quantiles(weighted: Sequence[tuple[float, float]], draws: Iterable[int]) -> list[float]:
    whole = sum(weight for _, weight in weighted)
    found: list[float] = []
    passed, values = 0.0, iter(weighted)
    length = weighted[0][0]
    for draw in draws:
        part = _part(draw) * whole
        while passed < part:
            length, weight = next(values, (weighted[-1][0], whole))
            passed += weight
        found.append(length)
    return found
