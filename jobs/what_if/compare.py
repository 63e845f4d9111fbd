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
from jobs.forecast.play import Spread
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import JobT
from jobs.planning.turns import Move, turns
from jobs.what_if.changed import EvictedJob, Situation

_LEAST = timedelta(minutes=1)  # a start that moves by less than this, or this part of the wait, stays
_PART = 0.05


class Effect(StrEnum):
    NOW = "now"  # it starts now, and would not without the change
    EARLIER = "earlier"
    LATER = "later"
    EVICTED = "evicted"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class JobImpact(Generic[JobT]):
    """One job without and with the change. A spread is None where nobody can tell when it starts."""

    job: JobT
    effect: Effect
    starts_before: bool
    starts_after: bool
    before: Spread | None
    after: Spread | None


@dataclass(frozen=True, slots=True)
class Consequences(Generic[JobT]):
    """What follows from a situation: what the turns decide in it now, and when the others likely start. ``evicted`` are
    by the changes that made the situation, and by the turns. ``spreads`` are of the jobs that were played forward, None
    where nobody can tell when it starts."""

    situation: Situation[JobT]
    starts: Mapping[int, Sequence[Placement]]  # by job
    evicted: Sequence[EvictedJob[JobT]]
    reservations: Mapping[int, Reservation[JobT]]  # by the job that has it
    spreads: Mapping[int, Spread | None]

    def wait(self) -> float | None:
        """The median of the likely waits from now on, in seconds. None where too few are known."""
        now = self.situation.scene.now
        waits = [inf if spread is None else (spread.p50 - now).total_seconds() for spread in self.spreads.values()]
        middle = median(waits) if waits else inf
        return None if middle == inf else middle


def consequences(situation: Situation[JobT], spreads: Mapping[int, Spread | None]) -> Consequences[JobT]:
    """What follows from this situation, of which the ``spreads`` are known already."""
    starts: dict[int, Sequence[Placement]] = {}
    evicted = list(situation.evicted)
    reservations: dict[int, Reservation[JobT]] = {}
    for turn in turns(situation.waiting, situation.scene, only_tried=True):
        if turn.move is Move.GO:
            starts[turn.job.id] = turn.placements
        because = f"{turn.job.title} has a right to its room"
        evicted += [EvictedJob(victim.job, victim.gpus, because) for victim in turn.victims]
        if turn.reservation is not None:
            reservations[turn.job.id] = turn.reservation
    return Consequences(situation, starts, evicted, reservations, spreads)


def felt(before: Consequences[JobT], after: Consequences[JobT]) -> list[JobImpact[JobT]]:
    """The jobs that feel the change: those that start now, then those that are evicted, earlier and later; in each
    those first that feel it most."""
    evicted = {gone.job.id for gone in after.evicted} - {gone.job.id for gone in before.evicted}
    jobs = {job.id: job for job in after.situation.waiting}
    jobs |= {gone.job.id: gone.job for gone in after.evicted if gone.job.id in evicted}
    all_felt = [_felt(job, before, after, job.id in evicted) for job in jobs.values()]
    order = list(Effect)
    return sorted(
        (each for each in all_felt if each.effect is not Effect.SAME),
        key=lambda each: (order.index(each.effect), -_moves(each), each.job.id),
    )


def _felt(job: JobT, before: Consequences[JobT], after: Consequences[JobT], is_evicted: bool) -> JobImpact[JobT]:
    id = job.id
    spreads = [case.spreads.get(id) for case in (before, after)]
    starts = id in before.starts, id in after.starts
    if is_evicted:
        effect = Effect.EVICTED
    elif starts[0] != starts[1]:
        effect = Effect.NOW if starts[1] else Effect.LATER
    elif id in before.spreads and id in after.spreads:
        effect = _effect(spreads[0], spreads[1], before.situation.scene.now)
    else:
        effect = Effect.SAME  # it was not played forward
    return JobImpact(job, effect, *starts, *spreads)


def _effect(before: Spread | None, after: Spread | None, now: datetime) -> Effect:
    if before is None or after is None:
        return Effect.SAME if before is after else Effect.LATER if after is None else Effect.EARLIER
    moved = after.p50 - before.p50
    if abs(moved) < max(_LEAST, _PART * (before.p50 - now)):
        return Effect.SAME
    return Effect.LATER if moved > timedelta() else Effect.EARLIER


def _moves(felt: JobImpact[JobT]) -> float:
    if felt.before is None or felt.after is None:
        return inf if felt.before is not felt.after else 0.0
    return abs((felt.after.p50 - felt.before.p50).total_seconds())


def moved(before: Consequences[JobT], after: Consequences[JobT]) -> list[tuple[JobT, Sequence[str], Sequence[str]]]:
    """The reservations that move: the job, the nodes that are reserved for it now, and those that would be."""
    jobs = {
        reservation.job.id: reservation.job for case in (before, after) for reservation in case.reservations.values()
    }
    moves: list[tuple[JobT, Sequence[str], Sequence[str]]] = []
    for id, job in sorted(jobs.items()):
        nodes = [case.reservations[id].names if id in case.reservations else [] for case in (before, after)]
        if nodes[0] != nodes[1]:
            moves.append((job, nodes[0], nodes[1]))
    return moves
