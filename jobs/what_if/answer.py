"""Says what changes would do to the queue as it is now, without changing anything.

The rows are read once, every change makes another situation of them, and the turns and the forecast say what follows.
It takes a bounded time: of a long queue the first jobs alone are played forward, and what is left out is said.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial

from base.accounts.viewer import Viewer, require
from base.core import words
from base.core.errors import BadRequest
from base.roles import Permission
from clusters.vcs.queries import load_rights
from jobs.forecast.play import MOST, Spread, first, side_by_side
from jobs.forecast.refresh import clock, length_of
from jobs.history.lengths import learn
from jobs.planning.queue.lengths import Lengths
from jobs.waiting.queue import WaitingJob, queue_now, recent_queue
from jobs.what_if.asked import AskedChange
from jobs.what_if.changed import Situation, apply_changes
from jobs.what_if.compare import Consequences, Effect, JobImpact, consequences, felt

BUDGET = 1.5  # seconds to play the queues: first a few jobs, and where that is quick enough, more
PATIENCE = 3.0  # a play that likely takes so many budgets is still tried: a third of its draws is enough
WAIT = 2.0  # times the budget that somebody waits for an answer, where others have the cores
FEW = MOST // 8
_AS_IT_IS = "nothing changes"
MANY = 2_000  # waiting jobs: of more, no change is tried alone


@dataclass(frozen=True, slots=True)
class Effects:
    """One change alone, or all together."""

    what: str
    starts_now: int  # that would not start without it
    earlier: int | None  # None: nobody can tell
    later: int | None
    evicted: int
    wait: float | None  # the median of the likely waits, in seconds


@dataclass(frozen=True, slots=True)
class GpusOfVc:
    """GPUs of a virtual cluster; a ceiling of null is none."""

    guarantee: float
    ceiling: float | None
    used: float


@dataclass(frozen=True, slots=True)
class VcThen:
    vc: str
    before: GpusOfVc
    after: GpusOfVc


@dataclass(frozen=True)
class WhatIfResult:
    """``alone`` has a case for each change that is possible by itself; ``left_out`` are sentences."""

    changes: Sequence[AskedChange]
    before: Consequences[WaitingJob]
    alone: Sequence[tuple[AskedChange, Consequences[WaitingJob]]]
    after: Consequences[WaitingJob]
    left_out: Sequence[str]

    @property
    def at(self) -> datetime:
        return self.before.situation.scene.now

    @property
    def waiting(self) -> int:
        return len(self.before.situation.waiting)

    @property
    def running(self) -> int:
        return len(self.before.situation.scene.running())

    @cached_property
    def felt(self) -> list[JobImpact[WaitingJob]]:
        return felt(self.before, self.after)

    def lines(self) -> list[Effects]:
        nothing = Effects("Nothing changes", 0, 0, 0, len(self.before.evicted), self.before.wait())
        alone = [_line(change.sentence, felt(self.before, case), case) for change, case in self.alone]
        whole = "All, as asked above" if len(self.changes) > 1 else self.changes[0].sentence if self.changes else ""
        return [
            nothing,
            *(alone if len(self.changes) > 1 else []),
            *([_line(whole, self.felt, self.after)] if whole else []),
        ]

    def vcs(self) -> list[VcThen]:
        before, then = self.before.situation, self.after.situation
        return [VcThen(name, _gpus(name, before), _gpus(name, then)) for name in sorted(before.rights)]


def what_if(admin: Viewer, changes: Sequence[AskedChange], budget: float = BUDGET) -> WhatIfResult:
    """Raises Forbidden for those who may not READ_ALL, and BadRequest with a sentence about a change that cannot be."""
    require(admin, Permission.READ_ALL)
    if not changes:
        case = _as_it_is()
        return WhatIfResult((), case, (), case, ())
    waiting, scene = queue_now()
    before = Situation(waiting, scene, load_rights())
    whole = apply_changes(before, changes)
    alone = _each_alone(before, changes) if len(changes) > 1 and len(waiting) <= MANY else []
    situations = [before, whole, *(one for _, one in alone)]
    spreads, left_out = _played(situations, budget)
    cases = [consequences(one, found) for one, found in zip(situations, spreads, strict=True)]
    pairs = [(change, case) for (change, _), case in zip(alone, cases[2:], strict=True)]
    if len(changes) > 1 and len(waiting) > MANY:
        left_out.append(f"No change was tried alone: more than {MANY:,} jobs wait.")
    return WhatIfResult(changes, cases[0], pairs, cases[1], left_out)


def _as_it_is() -> Consequences[WaitingJob]:
    """What follows where nothing changes, worked out once for a large queue that was just seen."""
    seen = recent_queue()
    if _AS_IT_IS not in seen.answers:
        seen.answers[_AS_IT_IS] = consequences(Situation(seen.waiting, seen.scene, load_rights()), {})
    found: Consequences[WaitingJob] = seen.answers[_AS_IT_IS]
    return found


def _each_alone(
    before: Situation[WaitingJob], changes: Sequence[AskedChange]
) -> list[tuple[AskedChange, Situation[WaitingJob]]]:
    """Try each change alone, without those that only make sense after another one."""
    cases = []
    for change in changes:
        try:
            cases.append((change, apply_changes(before, [change])))
        except BadRequest:
            continue
    return cases


def _played(
    situations: Sequence[Situation[WaitingJob]], budget: float
) -> tuple[list[dict[int, Spread | None]], list[str]]:
    """The spreads of each situation, and what was left out. Where the time is too short for all of them, those of the
    changes alone are empty."""
    if not any(situation.waiting for situation in situations):
        return [{} for _ in situations], []
    lengths = learn()
    if not lengths:
        return [{} for _ in situations], ["No job has ended yet, so nobody can tell when others start."]
    number = len(situations[0].waiting)
    began = time.monotonic()
    found, most, some = _side_by_side(situations[:2], lengths, budget / 2, FEW), FEW, situations[:2]
    took = max(0.01, time.monotonic() - began)  # so long take the first jobs of two queues
    if found is None:
        return [{} for _ in situations], [f"{words.count(number, 'waiting job')} could not be played forward in time."]
    for wider in (situations, situations[:2]):
        if took * (MOST / FEW) * len(wider) / 2 <= PATIENCE * budget or number <= FEW:
            more = _side_by_side(wider, lengths, budget, MOST)
            if more is not None:
                found, most, some = more, MOST, wider
                break
    left = [f"Of {number:,} waiting jobs the first {most} were played forward."] if number > most else []
    if len(some) < len(situations):
        left.append("The changes alone were not played forward: that would take too long.")
    return [*found, *({} for _ in situations[len(some) :])], left


def _side_by_side(
    situations: Sequence[Situation[WaitingJob]], lengths: Lengths, budget: float, most: int
) -> list[dict[int, Spread | None]] | None:
    """Play the queues of these situations with the same draws; None where the time was too short."""
    length = partial(length_of, lengths, now=situations[0].scene.now.timestamp())
    spent = clock(budget, WAIT)
    spreads_of = side_by_side([(situation.waiting, situation.scene) for situation in situations], length, spent, most)
    if spent() >= 1 and not any(spreads_of):
        return None
    return [
        {job.id: spreads.get(job.id) for job in first(situation.waiting, situation.scene, most)}
        for situation, spreads in zip(situations, spreads_of, strict=True)
    ]


def _line(what: str, seen: Sequence[JobImpact[WaitingJob]], case: Consequences[WaitingJob]) -> Effects:
    def number(*effects: Effect) -> int:
        return sum(each.effect in effects for each in seen)

    is_known = bool(case.spreads) or not case.situation.waiting
    earlier, later = (number(effect) if is_known else None for effect in (Effect.EARLIER, Effect.LATER))
    return Effects(what, number(Effect.NOW), earlier, later, len(case.evicted), case.wait())


def _gpus(name: str, one: Situation[WaitingJob]) -> GpusOfVc:
    quota, use = one.scene.quota(name), one.scene.use.get(name, {})
    return GpusOfVc(quota.guarantee.get("gpu", 0.0), quota.ceiling.get("gpu"), use.get("gpu", 0.0))
