"""What a change would do: who starts now, sooner or later, who is evicted, whose reservation moves. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from statistics import median
from typing import Generic

from clusters.placement.fit import Placement
from jobs.planning.forecast.play import Spread
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import W
from jobs.planning.turns import Verdict, turns
from jobs.planning.what_if.changed import Evicted, Picture, evicted_because

_LEAST = timedelta(minutes=1)  # a start that moves by less than this, or this part of the wait, stays
_PART = 0.05


@dataclass(frozen=True, slots=True)
class Now(Generic[W]):
    """What the turns decide in one picture. ``evicted`` are by the changes that made the picture, and by the turns."""

    starts: Mapping[int, Sequence[Placement]]  # by job
    evicted: Sequence[Evicted[W]]
    kept: Mapping[int, Reservation[W]]  # by the job that it is kept for


class Effect(StrEnum):
    NOW = "now"  # it starts now, and would not without the change
    EARLIER = "earlier"
    LATER = "later"
    EVICTED = "evicted"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Felt(Generic[W]):
    """One job without and with the change. A spread is None where nobody can tell when it starts."""

    job: W
    effect: Effect
    starts_before: bool
    starts_after: bool
    before: Spread | None
    after: Spread | None


@dataclass(frozen=True, slots=True)
class Case(Generic[W]):
    """A picture with what follows from it. ``spreads`` are of the jobs that were played forward, None where nobody can
    tell when it starts."""

    picture: Picture[W]
    now: Now[W]
    spreads: Mapping[int, Spread | None]

    def wait(self) -> float | None:
        """The median of the likely waits from now on, in seconds. None where too few are known."""
        now = self.picture.scene.now
        waits = [inf if one is None else (one.p50 - now).total_seconds() for one in self.spreads.values()]
        found = median(waits) if waits else inf
        return None if found == inf else found


def decide(picture: Picture[W]) -> Now[W]:
    """The turns of this picture."""
    starts: dict[int, Sequence[Placement]] = {}
    evicted = list(picture.evicted)
    kept: dict[int, Reservation[W]] = {}
    for turn in turns(picture.waiting, picture.scene, only_tried=True):
        if turn.verdict is Verdict.GO:
            starts[turn.job.id] = turn.places
        because = f"{turn.job.title} has a right to its room"
        evicted += [evicted_because(victim, because) for victim in turn.victims]
        if turn.reservation is not None:
            kept[turn.job.id] = turn.reservation
    return Now(starts, evicted, kept)


def felt(before: Case[W], after: Case[W]) -> list[Felt[W]]:
    """The jobs that feel the change: those that start now, then those that are evicted, earlier and later; in each
    those first that feel it most."""
    evicted = {one.job.id for one in after.now.evicted} - {one.job.id for one in before.now.evicted}
    jobs = {job.id: job for job in after.picture.waiting}
    jobs |= {one.job.id: one.job for one in after.now.evicted if one.job.id in evicted}
    found = [_felt(job, before, after, job.id in evicted) for job in jobs.values()]
    order = list(Effect)
    return sorted(
        (one for one in found if one.effect is not Effect.SAME),
        key=lambda one: (order.index(one.effect), -_moves(one), one.job.id),
    )


def _felt(job: W, before: Case[W], after: Case[W], is_evicted: bool) -> Felt[W]:
    id = job.id
    spreads = [case.spreads.get(id) for case in (before, after)]
    starts = id in before.now.starts, id in after.now.starts
    if is_evicted:
        effect = Effect.EVICTED
    elif starts[0] != starts[1]:
        effect = Effect.NOW if starts[1] else Effect.LATER
    elif id in before.spreads and id in after.spreads:
        effect = _effect(spreads[0], spreads[1], before.picture.scene.now)
    else:
        effect = Effect.SAME  # it was not played forward
    return Felt(job, effect, *starts, *spreads)


def _effect(before: Spread | None, after: Spread | None, now: datetime) -> Effect:
    if before is None or after is None:
        return Effect.SAME if before is after else Effect.LATER if after is None else Effect.EARLIER
    moved = after.p50 - before.p50
    if abs(moved) < max(_LEAST, _PART * (before.p50 - now)):
        return Effect.SAME
    return Effect.LATER if moved > timedelta() else Effect.EARLIER


def _moves(one: Felt[W]) -> float:
    if one.before is None or one.after is None:
        return inf if one.before is not one.after else 0.0
    return abs((one.after.p50 - one.before.p50).total_seconds())


def moved(before: Case[W], after: Case[W]) -> list[tuple[W, Sequence[str], Sequence[str]]]:
    """The reservations that move: the job, the nodes that are kept for it now, and those that would be."""
    jobs = {one.job.id: one.job for case in (before, after) for one in case.now.kept.values()}
    found: list[tuple[W, Sequence[str], Sequence[str]]] = []
    for id, job in sorted(jobs.items()):
        nodes = [case.now.kept[id].names if id in case.now.kept else [] for case in (before, after)]
        if nodes[0] != nodes[1]:
            found.append((job, nodes[0], nodes[1]))
    return found
