"""The geometry of sparklines: small lines in tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping

WIDE, HIGH = 60, 16
_GAP = 3  # steps without a value after which a line is broken


def path(points: Mapping[int, float], begin: int, end: int, step: int, top: float) -> str:
    """The ``d`` of the points (time: value) from ``begin`` to ``end``; ``top`` is the value at the upper edge."""
    parts, last = [], None
    for at in sorted(points):
        if not begin <= at < end:
            continue
        x = WIDE * (at - begin) / max(1, end - begin)
        y = HIGH - 0.5 - (HIGH - 1) * min(1.0, points[at] / top if top else 0.0)
        joined = last is not None and at - last <= _GAP * step
        parts.append(f"{'L' if joined else 'M'}{x:.3g} {y:.3g}{'' if joined else 'h.5'}")
        last = at
    return " ".join(parts)
