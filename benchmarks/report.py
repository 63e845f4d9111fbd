"""Figures on one line each: the value, what it stands beside, their ratio, the target and whether it is met."""

from __future__ import annotations

import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Missed:
    part: str
    name: str
    value: str
    target: str


class Report:
    """Prints each figure as soon as it is known, so that a run that is broken off has shown what it found."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}  # of each part
        self.broken: list[str] = []  # parts
        self._missed: list[Missed] = []
        self._judged = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is reported inside is of this part. If it breaks, this is told, and the next one may begin."""
        began = time.monotonic()
        print(f"\n[{name}]", flush=True)
        self.seconds[name] = 0.0
        try:
            yield
        except (Exception, pytest.fail.Exception):  # the second, of tests.helpers.until, is no Exception
            self.broken.append(name)
            traceback.print_exc(file=sys.stdout)
        finally:
            self.seconds[name] = time.monotonic() - began

    def title(self, text: str) -> None:
        print(text, flush=True)

    def add(self, name: str, value: str, beside: str = "", target: str = "", ok: bool | None = None) -> None:
        """One figure. ``ok`` None: it has no target, it is there to be compared with."""
        verdict = "" if ok is None else f"{'ok  ' if ok else 'MISS'} target {target}"
        print(f"  {name:<46} {value:<26} {beside:<44} {verdict}".rstrip(), flush=True)
        self._judged += ok is not None
        if ok is False:
            self._missed.append(Missed([*self.seconds][-1], name.strip(), value, target))

    def close(self) -> None:
        """What was missed, what broke, and how long each part took."""
        print(f"\n{len(self._missed)} of {self._judged} targets were missed{':' if self._missed else '.'}")
        for one in self._missed:
            print(f"  {one.part}: {one.name} {one.value}, target {one.target}")
        if self.broken:
            print(f"These parts broke, as is told above: {', '.join(self.broken)}")
        told = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.seconds.items())
        print(f"Seconds: {told}; {sum(self.seconds.values()):.0f} in all. Load {os.getloadavg()[0]:.1f} at the end.")


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
