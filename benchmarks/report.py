"""Figures on one line each: the value, what it stands beside, their ratio, the target and whether it is met."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """``ok`` None: it has no target, it is there to be compared with."""

    name: str
    value: str
    beside: str = ""
    target: str = ""
    ok: bool | None = None


class Report:
    """Prints each figure as soon as it is known, so that a run that is broken off has shown what it found."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []

    def title(self, text: str) -> None:
        print(f"\n{text}", flush=True)

    def add(self, name: str, value: str, beside: str = "", target: str = "", ok: bool | None = None) -> None:
        figure = Figure(name, value, beside, target, ok)
        self.figures.append(figure)
        verdict = "" if ok is None else f"{'ok  ' if ok else 'MISS'} target {target}"
        print(f"  {name:<46} {value:<26} {beside:<44} {verdict}".rstrip(), flush=True)

    def summary(self) -> str:
        judged = [figure for figure in self.figures if figure.ok is not None]
        missed = [figure.name for figure in judged if not figure.ok]
        told = f": {'; '.join(missed)}" if missed else ""
        return f"{len(judged) - len(missed)} of {len(judged)} targets met, {len(missed)} missed{told}"


def percentile(values: Sequence[float], percent: int) -> float:
    """By linear interpolation; the largest value of a short list is its p99."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.0995 else f"{1000 * seconds:.1f} ms"


def spread(seconds: Sequence[float], upper: int = 99) -> str:
    return f"p50 {ms(percentile(seconds, 50))}, p{upper} {ms(percentile(seconds, upper))}"


def wait_for(condition: Callable[[], bool], timeout: float, every: float, what: str) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Not within {timeout} s: {what}")
        time.sleep(every)
