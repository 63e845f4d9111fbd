"""How many jobs live where. Jobs are above this app, so they are asked by a function that they put in here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiveJobs:
    """Jobs that have not ended."""

    waiting: int = 0
    running: int = 0

    @property
    def all(self) -> int:
        return self.waiting + self.running


NONE = LiveJobs()
_by_vc: Callable[[], dict[str, LiveJobs]] = dict


def count_with(by_vc: Callable[[], dict[str, LiveJobs]]) -> None:
    """Called once, when the app of jobs is ready."""
    global _by_vc
    _by_vc = by_vc


def live_by_vc() -> dict[str, LiveJobs]:
    """Virtual clusters without live jobs are not in it."""
    return _by_vc()
