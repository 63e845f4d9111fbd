"""The geometry of the timeline: bars of jobs in lanes of GPUs, and the use of a node as one line. Pure.

x is in percent or, in paths, in thousandths of the window; y is in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

LANE = 12  # pixels of one GPU
THIN = 8  # pixels of a lane of jobs without GPU
MOST_THIN = 6  # such lanes; what finds none free shares the last one
OVERVIEW = 24  # pixels of a node as one line
_WIDE = 0.15  # percent: a narrower bar is drawn with its neighbours, and is no link
_NAMED = 9.0  # percent: a bar has room for a name
_COLUMNS = 480  # of a line
_LABELS = {"mine": "t-mine", "busy": "t-busy", "guest": "t-guest"}


@dataclass(frozen=True, slots=True)
class Held:
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
class Drawn:
    """A node: its bars, and as paths by class what is too narrow for a bar of its own."""

    height: int
    bars: list[Bar] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)


def draw(gpus: Sequence[str], held: Iterable[Held], links: int) -> Drawn:
    """The bars of one node, the ``links`` longest of them as links."""
    all_ = list(held)
    lanes = {gpu: at for at, gpu in enumerate(gpus)}
    longest = sorted(all_, key=lambda one: one.begin - one.end)[: max(0, links)]
    linked = {one.id for one in longest if 100 * (one.end - one.begin) >= _WIDE}
    thin = _thin_lanes(one for one in all_ if not any(gpu in lanes for gpu in one.gpus))
    drawn = Drawn(max(OVERVIEW, LANE * len(gpus) + THIN * (max(thin.values(), default=-1) + 1)))
    narrow: dict[str, list[str]] = {}
    for one in all_:
        for y, height in _places(one, lanes, thin, LANE * len(gpus)):
            if one.id in linked:
                drawn.bars.append(_bar(one, y, height))
            else:
                wide = max(1.0, 1000 * (one.end - one.begin))
                narrow.setdefault(one.css, []).append(f"M{1000 * one.begin:.1f} {y}h{wide:.1f}v{height}h-{wide:.1f}z")
    drawn.paths = {css: "".join(parts) for css, parts in narrow.items()}
    return drawn


def use(gpus: Sequence[str], held: Iterable[Held]) -> str:
    """The path of the part of a node's GPUs that is held (of a node without GPUs: whether anything runs), over
    thousandths of the window and OVERVIEW pixels."""
    whole = max(1, len(gpus))
    changes = [0] * (_COLUMNS + 1)
    for one in held:
        amount = len(one.gpus) if gpus else 1
        first = min(_COLUMNS - 1, int(one.begin * _COLUMNS))
        changes[first] += amount
        changes[min(_COLUMNS, max(first + 1, round(one.end * _COLUMNS)))] -= amount
    height, parts, before, now = OVERVIEW - 2, [f"M0 {OVERVIEW}"], 0, 0
    for column, change in enumerate(changes[:_COLUMNS]):
        now += change
        if now != before:
            y = OVERVIEW - height * min(1.0, now / whole)
            parts.append(f"H{1000 * column / _COLUMNS:.0f}V{y:.0f}")
            before = now
    return "".join(parts) + f"H1000V{OVERVIEW}z" if len(parts) > 1 else ""


def _places(one: Held, lanes: Mapping[str, int], thin: Mapping[int, int], below: int) -> Iterable[tuple[int, int]]:
    """(y, height) of each run of GPUs that lie side by side."""
    if one.id in thin:
        yield below + THIN * thin[one.id] + 1, THIN - 2
        return
    numbered = enumerate(sorted(lanes[gpu] for gpu in one.gpus if gpu in lanes))
    for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0]):
        at = [lane for _, lane in run]
        yield LANE * at[0] + 1, LANE * len(at) - 2


def _thin_lanes(held: Iterable[Held]) -> dict[int, int]:
    free: list[float] = []
    lanes: dict[int, int] = {}
    for one in sorted(held, key=lambda each: each.begin):
        lane = next((at for at, end in enumerate(free) if end <= one.begin), len(free))
        if lane < MOST_THIN:
            free[lane : lane + 1] = [one.end]
        lanes[one.id] = min(lane, MOST_THIN - 1)
    return lanes


def _bar(one: Held, y: int, height: int) -> Bar:
    width = 100 * (one.end - one.begin)
    label = one.name if width >= _NAMED and height >= LANE - 2 else ""
    x = f"{100 * one.begin:.2f}%"
    return Bar(one.id, one.css, x, y, f"{width:.2f}%", height, one.says, label, _LABELS[one.css], one.evicted)
