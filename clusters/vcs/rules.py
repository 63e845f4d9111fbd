"""The rules of virtual clusters (v1 contract, 7.3): their names, their percents, and what ``default`` has left. Pure.

Each virtual cluster but ``default`` is guaranteed a percentage of all that the nodes have; ``default`` has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from base.core import words

DEFAULT_VC = "default"  # jobs that name no virtual cluster run there; nobody changes, stops or deletes it
MOST_PRIORITY = 100  # of a job; the least is -100
MOST_HALF_LIFE = 8_760  # hours; a year
MOST_MIN_RUN = 1_440  # minutes; a day
MOST_GRACE = 600  # seconds from the notice of a job's end to KILL that any virtual cluster may allow
NOTEBOOK_MINUTES, MOST_NOTEBOOK_MINUTES = 120, 10_080  # without use, after which a notebook ends: usual, and at most
ADMIN_GROUP = "admingroup"  # the group of the admins, so no virtual cluster may have that name
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_WHOLE = 100.0
_DIGITS = 4  # percents are added up: a difference beyond this digit is an error of rounding


class Mistake(NamedTuple):
    """What is wrong with a value of a virtual cluster, and with which one, by the name of its column."""

    field: str
    sentence: str


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def is_changeable(name: str) -> bool:
    return name != DEFAULT_VC


def find_mistake(capacity: float, max_capacity: float) -> Mistake | None:
    """None when a virtual cluster may have these two percentages."""
    if not 0 <= capacity <= _WHOLE:
        return Mistake("capacity", "Give a number from 0 to 100.")
    if not capacity <= max_capacity <= _WHOLE:
        return Mistake("max_capacity", "It may not be less than what is guaranteed, nor more than 100.")
    return None


def rest_of(capacities: Iterable[float]) -> float:
    """The percentage that ``default`` has when the others have these."""
    return max(0.0, round(_WHOLE - sum(capacities), _DIGITS))


def rest_after(name: str, capacity: float, capacities: Mapping[str, float]) -> float:
    """The percentage that ``default`` has once the virtual cluster ``name`` has ``capacity``. ``capacities`` are those
    of all virtual clusters now, by name; that of ``default`` does not count."""
    return rest_of(percent for other, percent in {**capacities, name: capacity}.items() if other != DEFAULT_VC)


def room_for(name: str, capacities: Mapping[str, float]) -> float:
    """The largest percentage that the virtual cluster ``name`` may be given: all that no other one has."""
    return rest_after(name, 0.0, capacities)


def fits(capacity: float, room: float) -> bool:
    return round(room - capacity, _DIGITS) >= 0


def part_of(whole: int, percent: float) -> int:
    """How many whole units of ``whole`` (cores, MB, GPUs) a percentage is: what is not a whole one is not given."""
    return whole_units(whole * percent / _WHOLE)


def whole_units(amount: float) -> int:
    return int(round(amount, _DIGITS))


class Gpus(NamedTuple):
    """What a virtual cluster is guaranteed of the GPUs of the pool: a percentage or, where it is given, a number."""

    capacity: float
    number: int | None

    def of(self, pool: int) -> float:
        return pool * self.capacity / _WHOLE if self.number is None else self.number


def find_gpu_mistake(mine: Gpus, ceiling: int | None, others: Iterable[Gpus], pool: int) -> Mistake | None:
    """None when a virtual cluster may be guaranteed this and no more than the ceiling, where the pool has so many GPUs.
    ``others`` is without ``default``, which has the rest."""
    taken = sum(other.of(pool) for other in others)
    if round(taken + mine.of(pool) - pool, _DIGITS) > 0:
        left = max(0, int(pool - taken))
        sentence = (
            f"The pool has {words.count(pool, 'GPU')}, of which others are guaranteed {taken:g}: {left} are left."
        )
        return Mistake("capacity" if mine.number is None else "gpu_guarantee", sentence)
    floor = int(mine.of(pool))
    if ceiling is not None and ceiling < floor:
        are = "is" if floor == 1 else "are"
        return Mistake("gpu_ceiling", f"It may not be less than the {words.count(floor, 'GPU')} that {are} guaranteed.")
    return None
