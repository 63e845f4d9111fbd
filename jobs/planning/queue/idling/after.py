"""What reservations have kept idle after a round of turns (jobs/planning/queue/idling/rule.py has the rule). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from clusters.placement.fit import Placement, gpus_to_give
from clusters.placement.shares import is_within
from jobs.planning.queue.idling.rule import Idling, Idlings, most
from jobs.planning.queue.lines import Queue
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import JobT, Runner, Scene


class TakenTurn(Protocol[JobT]):
    """A turn, as jobs/planning/turns.py describes it."""

    job: JobT
    queue: Queue[JobT]
    placements: Sequence[Placement]
    reservation: Reservation[JobT] | None
    victims: Sequence[Runner[JobT]]
    awaits: bool
    lapse: Idling | None


def idled_after(waiting: Sequence[JobT], taken: Iterable[TakenTurn[JobT]], scene: Scene[JobT]) -> Idlings:
    """The ``idlings`` of the scene after these turns of the ``waiting`` jobs; the same object where they stay as they
    are."""
    waits: dict[str, TakenTurn[JobT]] = {}  # by virtual cluster, for what is bounded
    after, before, lapsed = dict(scene.idlings), scene.idlings, dict[str, Idling]()
    for turn in taken:
        vc, kept = turn.job.vc, turn.reservation
        if turn.lapse is not None:
            lapsed[vc] = turn.lapse
        elif kept is not None and kept.yields and not (turn.victims or turn.awaits):
            waits[vc] = turn
        elif turn.placements and vc in after and after[vc].job == turn.job.id:
            del after[vc]
    idle = _idle(waits) if waits else {}
    for vc in sorted({*after, *waits}):
        known = after.pop(vc, None)
        found = lapsed.get(vc) or _kept(known, waits.get(vc), idle.get(vc, 0), scene)
        if found is None and known is not None and known.lapses and any(job.id == known.job for job in waiting):
            found = known.begun_anew(scene.rounded_now)
        if found is not None:
            after[vc] = found
    return before if after == before else after


def _kept(before: Idling | None, turn: TakenTurn[JobT] | None, gpus: int, scene: Scene[JobT]) -> Idling | None:
    now = scene.rounded_now
    known = before.kept(gpus, now) if before is not None else None
    if turn is None or not gpus or (known is not None and known is before and known.job == turn.job.id):
        return known
    job, lapses = turn.job, before.lapses if before is not None and before.job == turn.job.id else 0
    nodes = tuple(turn.reservation.names) if turn.reservation is not None else ()
    wants, end = turn.queue.asked(job.demands), scene.likely_end(job)
    doubles = lapses if is_within({}, wants, scene.quota(job.vc)) else 0
    may = most(int(wants.get("gpu", 0)), None if end is None else (end - now).total_seconds(), doubles)
    if known is not None:
        return replace(known, job=job.id, nodes=nodes, most=may, lapses=lapses)
    return Idling(job.id, nodes, now, now, gpus, may, lapses=lapses)


def _idle(waits: dict[str, TakenTurn[JobT]]) -> dict[str, int]:
    """How many GPUs each of these reservations keeps idle."""
    queue = next(iter(waits.values())).queue
    free = {node.name: len(gpus_to_give(node)) for node in queue.left() if node.name not in queue.scene.unseen}
    reserved = {each.job.id for each in queue.reservations}
    missed = (queue.asked(job.demands).get("gpu", 0) for job in queue.missed if job.id not in reserved)
    others = [wants for wants in missed if wants]
    idle: dict[str, int] = {}
    for kept in queue.reservations:
        idles = _take(kept, free)
        if kept.job.vc in waits and any(wants <= idles for wants in others):
            idle[kept.job.vc] = idles
    return idle


def _take(kept: Reservation[JobT], free: dict[str, int]) -> int:
    """How many GPUs that are free are kept for it; those are no longer free."""
    wants, idles = Counter[str](), 0
    for demand, name in zip(kept.demands, kept.nodes, strict=True):
        wants[name] += demand.gpus
    for name, gpus in wants.items():
        idles += (own := min(gpus, free.get(name, 0)))
        free[name] = free.get(name, 0) - own
    return idles
