"""Reads the parameters of a sweep (``extras.sweep``): which values each has, and which jobs they make. Pure.

``{"grid": {"lr": [1e-4, 3e-4], "seed": "1..3"}}`` makes all combinations, the last parameter changing fastest;
``{"list": [{"lr": 1e-4, "seed": 1}, ...]}`` names the jobs one by one. A value is a text or a number and is put into
the config as it is written.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from base.core.errors import InvalidConfig, Problem
from jobs.config import jsonc
from jobs.config.coerce import container
from jobs.config.extras import SWEEP_KEYS

MOST = 200  # jobs of one sweep
MOST_VALUE = 1000  # characters of one value
MOST_PARAMETERS = 100
MOST_NUMBER = 1_000_000
POINTER = "/extras/sweep"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_RANGE = re.compile(r"\s*(-?\d{1,9})\s*\.\.\s*(-?\d{1,9})\s*(?:by\s*(\d{1,9})\s*)?")
_LOG = re.compile(r"\s*log\(\s*([0-9.eE+-]+)\s*,\s*([0-9.eE+-]+)\s*,\s*(\d{1,4})\s*\)\s*")
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_NUMBERS = ("atOnce", "stopAfterFailed")
_KNOWN = SWEEP_KEYS | set(_NUMBERS)


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """``jobs`` are the values of each job as texts by parameter, in order. ``at_once`` of them run at the same time at
    most; when ``stop_after`` of them have failed, the others are stopped."""

    parameters: tuple[str, ...]
    jobs: tuple[dict[str, str], ...]
    at_once: int | None = None
    stop_after: int | None = None


class BadSweep(InvalidConfig):
    """What is wrong with a sweep. v1 had none, so the message is the first problem's own."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems[0].message, problems)


def is_sweep(value: Any) -> bool:
    """Whether a decoded config asks for a sweep. ``extras`` is free storage: another ``sweep`` in it is a note."""
    asked = _asked(value)
    return isinstance(asked, dict) and bool(SWEEP_KEYS & asked.keys())


def read(document: jsonc.Document) -> SweepSpec:
    """The sweep of a config for which ``is_sweep`` holds. Raises BadSweep."""
    asked = _asked(document.value)
    reader = _ParameterReader(document)
    for key in asked.keys() - _KNOWN:
        known = f"it has grid or list, and {' and '.join(_NUMBERS)}"
        reader.refuse(f"/{key}", f"{jsonc.shown(key)} is not known in a sweep; {known}.")
    if asked.keys() >= SWEEP_KEYS:
        reader.refuse("/list", "A sweep has either a grid or a list.")
    jobs = reader.listed(asked["list"]) if "list" in asked else reader.combined(asked["grid"])
    at_once, stop_after = (reader.number(name, asked.get(name)) for name in _NUMBERS)
    if reader.problems:
        raise BadSweep(*reader.problems)
    return SweepSpec(tuple(jobs[0]), tuple(jobs), at_once, stop_after)


class _ParameterReader:
    def __init__(self, document: jsonc.Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def refuse(self, path: str, message: str) -> list[Any]:
        """Note the problem; gives nothing, in place of values."""
        self.problems.append(self._document.problem(POINTER + path, message))
        return []

    def number(self, name: str, value: Any) -> int | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_NUMBER:
            self.refuse(f"/{name}", f"{name} must be a whole number from 1.")
            return None
        return value

    def combined(self, grid: Any) -> list[dict[str, str]]:
        if not isinstance(grid, dict) or not grid:
            return self.refuse("/grid", "grid must be an object: parameters with their values.")
        if self._has_too_many("/grid", grid):
            return []
        values = {name: self._values(name, given) for name, given in grid.items()}
        total = math.prod(len(each) for each in values.values())
        if total > MOST:
            number = f"{total:,}" if total < 10**12 else "far too many"
            self.refuse("/grid", f"The sweep makes {number} jobs; the most is {MOST}.")
        if self.problems:
            return []
        return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]

    def listed(self, jobs: Any) -> list[dict[str, str]]:
        if not isinstance(jobs, list) or not jobs or not all(isinstance(each, dict) and each for each in jobs):
            return self.refuse("/list", "list must be an array of objects: the parameters of each job.")
        if len(jobs) > MOST:
            return self.refuse("/list", f"The sweep makes {len(jobs):,} jobs; the most is {MOST}.")
        names = list(jobs[0])
        if self._has_too_many("/list/0", names):
            return []
        for name in names:
            self._require_name(f"/list/0/{jsonc.escape(name)}", name)
        values = []
        for at, job in enumerate(jobs):
            if set(job) != set(names):
                self.refuse(f"/list/{at}", f"Each job of a list has the same parameters: {', '.join(names)}.")
                continue
            values.append({name: self._text(f"/list/{at}/{jsonc.escape(name)}", name, job[name]) for name in names})
        return values

    def _has_too_many(self, path: str, names: Collection[str]) -> bool:
        if len(names) > MOST_PARAMETERS:
            self.refuse(path, f"The sweep has {len(names):,} parameters; the most is {MOST_PARAMETERS}.")
        return len(names) > MOST_PARAMETERS

    def _values(self, name: str, asked: Any) -> list[str]:
        path = f"/grid/{jsonc.escape(name)}"
        self._require_name(path, name)
        if isinstance(asked, str):
            return self._span(path, name, asked)
        if not isinstance(asked, list) or not asked:
            return self.refuse(path, f'{jsonc.shown(name)} needs values: [1, 2], "1..8" or "log(1e-5, 1e-2, 4)".')
        if self._are_too_many(path, name, asked):
            return []
        texts = [self._text(f"{path}/{at}", name, value) for at, value in enumerate(asked)]
        for at, text in enumerate(texts):
            if text in texts[:at]:
                self.refuse(f"{path}/{at}", f"{jsonc.shown(name)} has the value {jsonc.shown(text)} twice.")
        return texts

    def _span(self, path: str, name: str, text: str) -> list[str]:
        try:
            values = list(itertools.islice(span(text), MOST + 1))
        except ValueError:
            return self.refuse(
                path, f'{jsonc.shown(name)} is no range: write "1..8", "0..100 by 10" or "log(1e-5, 1e-2, 4)".'
            )
        return [] if self._are_too_many(path, name, values) else values

    def _are_too_many(self, path: str, name: str, values: Collection[Any]) -> bool:
        if len(values) > MOST:
            self.refuse(path, f"{jsonc.shown(name)} has more than {MOST} values.")
        return len(values) > MOST

    def _text(self, path: str, name: str, value: Any) -> str:
        """The value as it is written: ``1e-4`` stays ``1e-4``."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            raw = _NUMBER.match(self._document.text, self._document.offset(POINTER + path))
            return raw[0] if raw else str(value)
        if isinstance(value, str) and len(value) <= MOST_VALUE:
            return value
        says = f"is longer than {MOST_VALUE} characters" if isinstance(value, str) else "must be a text or a number"
        self.refuse(path, f"A value of {jsonc.shown(name)} {says}.")
        return ""

    def _require_name(self, path: str, name: str) -> None:
        if not NAME.fullmatch(name):
            self.refuse(path, f"{jsonc.shown(name)} cannot name a parameter: letters, digits and _, no digit first.")


def span(text: str) -> Iterator[str]:
    """The values of ``1..8``, ``0..100 by 10`` or ``log(1e-5, 1e-2, 4)``. Raises ValueError for another text."""
    if match := _RANGE.fullmatch(text):
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if step == 0:
            raise ValueError(text)
        turn = 1 if last >= first else -1
        return map(str, range(first, last + turn, turn * step))
    if match := _LOG.fullmatch(text):
        least, most, number = float(match[1]), float(match[2]), int(match[3])
        if not (0 < least < math.inf and 0 < most < math.inf and number >= 2):
            raise ValueError(text)
        ratio = (math.log(most) - math.log(least)) / (number - 1)
        return (f"{math.exp(math.log(least) + at * ratio):.6g}" for at in range(number))
    raise ValueError(text)


def _asked(value: Any) -> Any:
    value = container(value)
    extras = container(value.get("extras")) if isinstance(value, dict) else None
    return container(extras.get("sweep")) if isinstance(extras, dict) else None
