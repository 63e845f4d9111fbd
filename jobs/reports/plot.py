"""The geometry of plots that the server draws: stacked columns and their axis, and parts of a whole as dots. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HEIGHT = 190.0  # of the axis, in pixels; x is in percent, so that nothing is stretched
GRID = [f"{HEIGHT * quarter / 4:g}" for quarter in range(5)]  # a line for each label of the axis


@dataclass(frozen=True, slots=True)
class Piece:
    """One rectangle of a column."""

    css: str
    x: str
    y: str
    width: str
    height: str


DOTS = 150.0  # pixels of a whole


@dataclass(frozen=True, slots=True)
class Dot:
    """A part of a whole as a point; ``line`` leads to the one before it (x1, y1, x2, y2), and is empty for the
    first."""

    css: str
    x: str
    y: str
    label: str  # y of the text beside it
    line: tuple[str, ...]


def dots(parts: Sequence[tuple[str, float]]) -> list[Dot]:
    """The dots of (class, part) from left to right, evenly."""
    wide, found = 100 / max(1, len(parts)), list[Dot]()
    for at, (css, part) in enumerate(parts):
        x, y = f"{wide * (at + 0.5):.2f}%", height_of(part)
        line = (found[-1].x, found[-1].y, x, y) if found else ()
        label = float(y) - 9 if float(y) > 20 else float(y) + 18  # below a dot at the top
        found.append(Dot(css, x, y, f"{label:.1f}", line))
    return found


def height_of(part: float) -> str:
    """y of a part of a whole."""
    return f"{DOTS * (1 - part):.1f}"


def nice_top(most: float) -> float:
    """The least of 1, 2, 2.5, 5 x 10^n that is not below ``most``: it has four round quarters."""
    if most <= 0:
        return 1.0
    unit = 1.0
    while unit * 10 < most:
        unit *= 10
    while unit > most:
        unit /= 10
    return next(unit * step for step in (1, 2, 4, 8, 10) if unit * step >= most)


def columns(stacks: Mapping[str, Sequence[float]], top: float) -> list[Piece]:
    """The columns of series by their CSS class, the first one at the bottom."""
    number = max((len(values) for values in stacks.values()), default=0)
    pieces, wide = [], 100 / max(1, number)
    for at in range(number):
        below = HEIGHT
        for css, values in stacks.items():
            height = HEIGHT * values[at] / top
            if height <= 0:
                continue
            below -= height
            shown = max(0.5, height - 1) if height >= 2 else height
            x, width = f"{wide * (at + 0.1):.3f}%", f"{wide * 0.8:.3f}%"
            pieces.append(Piece(css, x, f"{below:.1f}", width, f"{shown:.1f}"))
    return pieces


def axis(top: float) -> list[str]:
    """Five labels, from the top down."""
    return [f"{top * quarter / 4:,.4g}" if top < 10_000 else f"{top * quarter / 4:,.0f}" for quarter in (4, 3, 2, 1, 0)]
