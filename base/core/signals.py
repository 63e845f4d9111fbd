"""Lets lower rooms talk to higher ones without importing them: signals, and questions to the apps above.

``first_start`` is sent at every ``manage.py up``; receivers do what is missing and may be called again. Its argument
``say(sentence)`` writes to the terminal. A receiver that raises is reported and stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from django.dispatch import Signal

first_start = Signal()

# Sent with ``node`` (its name), ``kind`` (node.marked, node.unmarked) and ``reason`` (a sentence) when a node gets or
# loses a mark: for the events of jobs.
node_learnt = Signal()

# Sent with ``username``, ``used`` and ``limit`` (bytes) when a file was written by whoever has a quota.
files_grew = Signal()


@dataclass(frozen=True, slots=True)
class LiveJobs:
    """Jobs that have not ended. ``gpus``: of the running ones together."""

    waiting: int = 0
    running: int = 0
    gpus: int = 0

    @property
    def all(self) -> int:
        return self.waiting + self.running


NO_JOBS = LiveJobs()


class AboutJobs(Protocol):
    """The questions that accounts, files and virtual clusters ask about jobs, which are above them."""

    def live(self, by: Literal["vc", "username"], names: Collection[str] | None = None) -> dict[str, LiveJobs]:
        """Live jobs by virtual cluster or by user, of these ``names`` only. Names without live jobs may be left out."""

    def users_of(self, vc: str) -> dict[str, LiveJobs]:
        """Live jobs in that virtual cluster, by user."""

    def count_ended(self, username: str) -> int: ...

    def count_users_running(self) -> int: ...

    def is_attempt_live(self, app_id: str) -> bool:
        """Whether a container of this attempt may still run."""

    def moved_file(self, path: str) -> str:
        """The present path of a file of the store that was at ``path`` in older releases; any other path as it is."""


# What files ask: the store quotas of the virtual clusters that a user, an admin or not, may use and that have one.
StoreQuotas = Callable[[str, bool], Collection[int]]
Manages = Callable[[str, str], bool]  # what accounts ask: whether a user manages a virtual cluster
_about_vcs: list[tuple[StoreQuotas, Manages]] = []
_about_jobs: list[AboutJobs] = []


def answer_about_jobs(answers: AboutJobs) -> None:
    """Called once, when the app of jobs is ready."""
    _about_jobs[:] = [answers]


def about_jobs() -> AboutJobs:
    return _about_jobs[0]


def answer_about_vcs(store_quotas: StoreQuotas, manages: Manages) -> None:
    """Called once, when the app of clusters is ready."""
    _about_vcs[:] = [(store_quotas, manages)]


def store_quotas(username: str, is_admin: bool) -> Collection[int]:
    return _about_vcs[0][0](username, is_admin)


def manages(username: str, vc: str) -> bool:
    return _about_vcs[0][1](username, vc)
