"""The geometry of the plots that the server draws: lines over time, as in a page without a script. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDE, HIGH = 600.0, 100.0  # of the plot's own units
_GAP = 3  # steps without a value after which a line is broken


@dataclass(frozen=True, slots=True)
class Grid:
    """Times at equal steps, in seconds since 1970, at which all lines have a value or None."""

    begin: int
    step: int
    number: int

    @property
    def times(self) -> list[int]:
        return [self.begin + self.step * at for at in range(self.number)]


def grid_of(begin: int, end: int, step: int, most: int) -> Grid:
    """The steps from ``begin`` to ``end``; wider ones where there would be more than ``most``."""
    wide = step * max(1, -(-(end - begin) // (step * most)))
    first = begin // wide * wide
    return Grid(first, wide, max(1, -(-(end - first) // wide)))


def on_grid(points: Iterable[tuple[int, float, float]], grid: Grid) -> list[float | None]:
    """The mean of those means of a Series that are in each step."""
    steps: dict[int, list[float]] = {}
    for at, mean, _ in points:
        steps.setdefault((at - grid.begin) // grid.step, []).append(mean)
    return [sum(steps[at]) / len(steps[at]) if at in steps else None for at in range(grid.number)]


def path(values: Sequence[float | None], top: float) -> str:
    """The ``d`` of a line; one point alone is a short line."""
    parts, last = [], -_GAP - 1
    wide = WIDE / max(1, len(values) - 1)
    for at, value in enumerate(values):
        if value is None:
            continue
        y = HIGH - 1 - (HIGH - 2) * min(1.0, value / top if top else 0.0)
        parts.append(f"{'L' if at - last <= _GAP else 'M'}{wide * at:.4g} {y:.3g}")
        if at - last > _GAP:
            parts.append("h.1")
        last = at
    return " ".join(parts)
