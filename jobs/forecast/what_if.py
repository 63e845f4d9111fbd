"""Says what changes would do to the queue as it is now, without changing anything.

The rows are read once, every change makes another picture of them, and the turns and the forecast say what follows.
It takes a bounded time: of a long queue the first jobs alone are played forward, and what is left out is said.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial

from clusters.placement.shares import Amount
from clusters.vcs.queries import load_rights
from jobs.forecast.refresh import clock, length_of
from jobs.history.lengths import learn
from jobs.planning.forecast.lengths import Lengths
from jobs.planning.forecast.play import MOST, Spread, first, side_by_side
from jobs.planning.what_if.asked import Asked
from jobs.planning.what_if.changed import Evicted, Picture, after
from jobs.planning.what_if.compare import Case, Effect, Felt, decide, felt, moved
from jobs.scheduling.queue import Queued, picture
from portal.accounts.viewer import Viewer, require_admin
from portal.core import words
from portal.core.errors import BadRequest

BUDGET = 1.5  # seconds to play the queues: first a few jobs, and where that is quick enough, more
PATIENCE = 3.0  # a play that likely takes so many budgets is still tried: a third of its draws is enough
WAIT = 2.0  # times the budget that somebody waits for an answer, where others have the cores
FEW = MOST // 8
MANY = 2_000  # waiting jobs: of more, no change is tried alone


@dataclass(frozen=True, slots=True)
class Line:
    """One change alone, or all together."""

    what: str
    starts_now: int  # that would not start without it
    earlier: int | None  # None: nobody can tell
    later: int | None
    evicted: int
    wait: float | None  # the median of the likely waits, in seconds


@dataclass(frozen=True, slots=True)
class VcThen:
    """Of one virtual cluster: its GPUs guaranteed and at most (None: no ceiling), before and after, and in use."""

    name: str
    guarantee: tuple[float, float]
    ceiling: tuple[float | None, float | None]
    used: tuple[float, float]


@dataclass(frozen=True)
class WhatIf:
    """``alone`` has a case for each change that is possible by itself; ``left_out`` are sentences."""

    changes: Sequence[Asked]
    before: Case[Queued]
    alone: Sequence[tuple[Asked, Case[Queued]]]
    after: Case[Queued]
    left_out: Sequence[str]

    @property
    def at(self) -> datetime:
        return self.before.picture.scene.now

    @property
    def waiting(self) -> int:
        return len(self.before.picture.waiting)

    @property
    def running(self) -> int:
        return len(self.before.picture.scene.running())

    @cached_property
    def felt(self) -> list[Felt[Queued]]:
        return felt(self.before, self.after)

    @property
    def evicted(self) -> Sequence[Evicted[Queued]]:
        return self.after.now.evicted

    @property
    def reservations(self) -> list[tuple[Queued, Sequence[str], Sequence[str]]]:
        return moved(self.before, self.after)

    def lines(self) -> list[Line]:
        nothing = Line("Nothing changes", 0, 0, 0, len(self.before.now.evicted), self.before.wait())
        alone = [_line(change.sentence, felt(self.before, case), case) for change, case in self.alone]
        whole = "All, as asked above" if len(self.changes) > 1 else self.changes[0].sentence if self.changes else ""
        return [
            nothing,
            *(alone if len(self.changes) > 1 else []),
            *([_line(whole, self.felt, self.after)] if whole else []),
        ]

    def vcs(self) -> list[VcThen]:
        return _vcs(self.before.picture, self.after.picture)


def what_if(admin: Viewer, changes: Sequence[Asked], budget: float = BUDGET) -> WhatIf:
    """Raises Forbidden for others than admins, and BadRequest with a sentence about a change that cannot be."""
    require_admin(admin)
    waiting, scene = picture()
    before = Picture(waiting, scene, load_rights())
    whole = after(before, changes)
    alone = _each_alone(before, changes) if len(changes) > 1 and len(waiting) <= MANY else []
    pictures = [before, whole, *(one for _, one in alone)]
    spreads, left_out = _played(pictures, budget) if changes else ([{}, {}], [])
    cases = [Case(one, decide(one), found) for one, found in zip(pictures, spreads, strict=True)]
    pairs = [(change, case) for (change, _), case in zip(alone, cases[2:], strict=True)]
    if len(changes) > 1 and len(waiting) > MANY:
        left_out.append(f"No change was tried alone: more than {MANY:,} jobs wait.")
    return WhatIf(changes, cases[0], pairs, cases[1], left_out)


def _each_alone(before: Picture[Queued], changes: Sequence[Asked]) -> list[tuple[Asked, Picture[Queued]]]:
    """Without those that only make sense after another one."""
    found = []
    for change in changes:
        try:
            found.append((change, after(before, [change])))
        except BadRequest:
            continue
    return found


def _played(pictures: Sequence[Picture[Queued]], budget: float) -> tuple[list[dict[int, Spread | None]], list[str]]:
    """The spreads of each picture, and what was left out. Where the time is too short for all of them, those of the
    changes alone are empty."""
    if not any(one.waiting for one in pictures):
        return [{} for _ in pictures], []
    lengths = learn()
    if not lengths:
        return [{} for _ in pictures], ["No job has ended yet, so nobody can tell when others start."]
    number = len(pictures[0].waiting)
    began = time.monotonic()
    found, most, some = _side_by_side(pictures[:2], lengths, budget / 2, FEW), FEW, pictures[:2]
    took = max(0.01, time.monotonic() - began)  # so long take the first jobs of two queues
    if found is None:
        return [{} for _ in pictures], [f"{words.count(number, 'waiting job')} could not be played forward in time."]
    for wider in (pictures, pictures[:2]):
        if took * (MOST / FEW) * len(wider) / 2 <= PATIENCE * budget or number <= FEW:
            more = _side_by_side(wider, lengths, budget, MOST)
            if more is not None:
                found, most, some = more, MOST, wider
                break
    left = [f"Of {number:,} waiting jobs the first {most} were played forward."] if number > most else []
    if len(some) < len(pictures):
        left.append("The changes alone were not played forward: that would take too long.")
    return [*found, *({} for _ in pictures[len(some) :])], left


def _side_by_side(
    pictures: Sequence[Picture[Queued]], lengths: Lengths, budget: float, most: int
) -> list[dict[int, Spread | None]] | None:
    """None where the time was too short."""
    length = partial(length_of, lengths, now=pictures[0].scene.now.timestamp())
    spent = clock(budget, WAIT)
    found = side_by_side([(one.waiting, one.scene) for one in pictures], length, spent, most)
    if spent() >= 1 and not any(found):
        return None
    return [
        {job.id: spreads.get(job.id) for job in first(one.waiting, most)}
        for one, spreads in zip(pictures, found, strict=True)
    ]


def _line(what: str, seen: Sequence[Felt[Queued]], case: Case[Queued]) -> Line:
    def number(*effects: Effect) -> int:
        return sum(one.effect in effects for one in seen)

    is_known = bool(case.spreads) or not case.picture.waiting
    earlier, later = (number(effect) if is_known else None for effect in (Effect.EARLIER, Effect.LATER))
    return Line(what, number(Effect.NOW), earlier, later, len(case.now.evicted), case.wait())


def _vcs(before: Picture[Queued], then: Picture[Queued]) -> list[VcThen]:
    def gpus(amount: Amount) -> float:
        return amount.get("gpu", 0.0)

    def ceiling(one: Picture[Queued], name: str) -> float | None:
        return one.scene.quota(name).ceiling.get("gpu")

    return [
        VcThen(
            name,
            (gpus(before.scene.quota(name).guarantee), gpus(then.scene.quota(name).guarantee)),
            (ceiling(before, name), ceiling(then, name)),
            (gpus(before.scene.use.get(name, {})), gpus(then.scene.use.get(name, {}))),
        )
        for name in sorted(before.rights)
    ]
