"""The geometry of what the server draws. Pure.

Plots: stacked columns and their axis, and parts of a whole as dots. The timeline: bars of jobs in lanes of GPUs, and
the use of a node as one line; there x is in percent or, in paths, in thousandths of the window, and y in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

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
    wide, drawn = 100 / max(1, len(parts)), list[Dot]()
    for at, (css, part) in enumerate(parts):
        x, y = f"{wide * (at + 0.5):.2f}%", height_of(part)
        line = (drawn[-1].x, drawn[-1].y, x, y) if drawn else ()
        label = float(y) - 9 if float(y) > 20 else float(y) + 18  # below a dot at the top
        drawn.append(Dot(css, x, y, f"{label:.1f}", line))
    return drawn


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


LANE = 12  # pixels of one GPU
THIN = 8  # pixels of a lane of jobs without GPU
MOST_THIN = 6  # such lanes; what finds none free shares the last one
OVERVIEW = 24  # pixels of a node as one line
_WIDE = 0.15  # percent: a narrower bar is drawn with its neighbours, and is no link
_NAMED = 9.0  # percent: a bar has room for a name
_COLUMNS = 480  # of a line
_LABELS = {"mine": "t-mine", "busy": "t-busy", "guest": "t-guest"}


@dataclass(frozen=True, slots=True)
class HeldSpan:
    """What a task held, as the drawing needs it: ``gpus`` are ids, ``begin`` and ``end`` parts of the window."""

    id: int
    name: str
    says: str
    css: str
    gpus: Sequence[str]
    begin: float
    end: float
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar that is a link; ``ends_red``: it was evicted. ``label`` is empty where there is no room for one."""

    id: int
    css: str
    x: str
    y: int
    width: str
    height: int
    says: str
    label: str
    label_css: str
    ends_red: bool


@dataclass(slots=True)
class DrawnNode:
    """A node: its bars, and as paths by class what is too narrow for a bar of its own."""

    height: int
    bars: list[Bar] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)


def draw(gpus: Sequence[str], held: Iterable[HeldSpan], links: int) -> DrawnNode:
    """The bars of one node, the ``links`` longest of them as links."""
    all_ = list(held)
    lanes = {gpu: at for at, gpu in enumerate(gpus)}
    longest = sorted(all_, key=lambda span: span.begin - span.end)[: max(0, links)]
    linked = {span.id for span in longest if 100 * (span.end - span.begin) >= _WIDE}
    thin = _thin_lanes(span for span in all_ if not any(gpu in lanes for gpu in span.gpus))
    drawn = DrawnNode(max(OVERVIEW, LANE * len(gpus) + THIN * (max(thin.values(), default=-1) + 1)))
    narrow: dict[str, list[str]] = {}
    for span in all_:
        for y, height in _places(span, lanes, thin, LANE * len(gpus)):
            if span.id in linked:
                drawn.bars.append(_bar(span, y, height))
            else:
                wide = max(1.0, 1000 * (span.end - span.begin))
                narrow.setdefault(span.css, []).append(f"M{1000 * span.begin:.1f} {y}h{wide:.1f}v{height}h-{wide:.1f}z")
    drawn.paths = {css: "".join(parts) for css, parts in narrow.items()}
    return drawn


def use(gpus: Sequence[str], held: Iterable[HeldSpan]) -> str:
    """The path of the part of a node's GPUs that is held (of a node without GPUs: whether anything runs), over
    thousandths of the window and OVERVIEW pixels."""
    whole = max(1, len(gpus))
    changes = [0] * (_COLUMNS + 1)
    for span in held:
        amount = len(span.gpus) if gpus else 1
        first = min(_COLUMNS - 1, int(span.begin * _COLUMNS))
        changes[first] += amount
        changes[min(_COLUMNS, max(first + 1, round(span.end * _COLUMNS)))] -= amount
    height, parts, before, now = OVERVIEW - 2, [f"M0 {OVERVIEW}"], 0, 0
    for column, change in enumerate(changes[:_COLUMNS]):
        now += change
        if now != before:
            y = OVERVIEW - height * min(1.0, now / whole)
            parts.append(f"H{1000 * column / _COLUMNS:.0f}V{y:.0f}")
            before = now
    return "".join(parts) + f"H1000V{OVERVIEW}z" if len(parts) > 1 else ""


def _places(span: HeldSpan, lanes: Mapping[str, int], thin: Mapping[int, int], below: int) -> Iterable[tuple[int, int]]:
    """(y, height) of each run of GPUs that lie side by side."""
    if span.id in thin:
        yield below + THIN * thin[span.id] + 1, THIN - 2
        return
    numbered = enumerate(sorted(lanes[gpu] for gpu in span.gpus if gpu in lanes))
    for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0]):
        at = [lane for _, lane in run]
        yield LANE * at[0] + 1, LANE * len(at) - 2


def _thin_lanes(held: Iterable[HeldSpan]) -> dict[int, int]:
    free: list[float] = []
    lanes: dict[int, int] = {}
    for span in sorted(held, key=lambda each: each.begin):
        lane = next((at for at, end in enumerate(free) if end <= span.begin), len(free))
        if lane < MOST_THIN:
            free[lane : lane + 1] = [span.end]
        lanes[span.id] = min(lane, MOST_THIN - 1)
    return lanes


def _bar(span: HeldSpan, y: int, height: int) -> Bar:
    width = 100 * (span.end - span.begin)
    label = span.name if width >= _NAMED and height >= LANE - 2 else ""
    x = f"{100 * span.begin:.2f}%"
    return Bar(span.id, span.css, x, y, f"{width:.2f}%", height, span.says, label, _LABELS[span.css], span.evicted)
