"""A number as the strip of a page shows it (templates/components/_strip.html)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StripFigure:
    """One number of the strip. ``percent`` draws a bar when it is not None."""

    name: str
    value: str
    of: str = ""
    percent: float | None = None
    label: str = ""
    small: str = ""
