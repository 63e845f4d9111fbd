"""Rows with moments of the clock of the day, as the scheduler goes by them: on its own clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Generic, Protocol, TypeVar

T = TypeVar("T", bound="HasMoment")


class HasMoment(Protocol):
    def on_clock(self: T, today: datetime, now: datetime) -> T:
        """The same by a clock that says ``now`` when this one says ``today``."""


class LearntRows(Generic[T]):
    """What was learnt once of a user in a virtual cluster stays, whatever is done to the clock of the day."""

    def __init__(self) -> None:
        self._rows: Mapping[tuple[str, str], T] = {}
        self.known: Mapping[tuple[str, str], T] = {}

    def learn(self, rows: Mapping[tuple[str, str], T], time_of_day: datetime, read_at: datetime) -> None:
        before, known = self._rows, self.known
        self._rows = rows
        self.known = {
            whose: known[whose] if row == before.get(whose) else row.on_clock(time_of_day, read_at)
            for whose, row in rows.items()
        }
