"""Says in sentences which rules keep a job waiting, and for limits of its virtual cluster or user who holds what is
missing. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from base.core import words
from clusters.placement.blockers import size
from clusters.placement.fit import Blocker
from jobs.planning.queue import sentences
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.lines import Queue
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import JobT, Runner

MOST_NAMED = 3


class WaitingTurn(Protocol[JobT]):
    """The turn of a job that waits, as jobs/planning/turns.py describes it."""

    job: JobT
    queue: Queue[JobT]
    behind: JobT | None
    error: Exception | None
    victims: Sequence[Runner[JobT]]
    awaits: bool
    reservation: Reservation[JobT] | None
    ceiling: Sequence[str]
    cap: Sequence[str]
    owners: Sequence[str]
    lapse: Idling | None

    @property
    def ahead(self) -> Sequence[JobT]: ...


def rules(turn: WaitingTurn[JobT]) -> list[Blocker]:
    job, queue = turn.job, turn.queue
    now, vc = queue.scene.now, job.vc
    if turn.error is not None or (job.parked_until is not None and job.parked_until > now):
        return [sentences.PARKED]
    blockers: list[Blocker] = []
    if job.not_before is not None and job.not_before > now:
        blockers.append(sentences.delay(job.not_before, now))
    if job.awaits:
        blockers += [other.blocker for other in job.awaited]
    if queue.scene.quota(vc).stopped:
        blockers.append(sentences.stopped(vc))
    if queue.lines[vc].rests(job):
        blockers.append(sentences.rests(job, queue.scene.rests.get(job.username), queue.displaced, now))
    if turn.victims or turn.awaits:
        blockers.append(sentences.evicting(turn.victims))
    if turn.reservation is not None and turn.reservation.spared:
        blockers.append(sentences.spared(turn.reservation, queue.scene))
    if turn.ceiling:
        blockers.append(ceiling(job, turn.ceiling, queue, turn.behind))
    if turn.cap:
        blockers.append(cap(job, turn.cap, queue))
    if turn.owners:
        blockers.append(sentences.owners(job, turn.owners))
    if turn.lapse is not None:
        blockers.append(sentences.lapsed(job, turn.lapse, now))
    if turn.behind is not None and not turn.ceiling:
        has_reservation = any(other.job.id == turn.behind.id for other in queue.reservations)
        waits = None if has_reservation else turn.behind
        ahead, is_eldest = turn.ahead, queue.eldest == turn.behind.id
        later = queue.lines[vc].came_later(job)
        told = sentences.queue(len(ahead), vc, waits, is_eldest, later.count(False), later.count(True))
        blockers.append(told)
    return blockers


def ceiling(job: JobT, what: Sequence[str], asked_queue: Queue[JobT], before: JobT | None) -> Blocker:
    """``before`` waits for the same ceiling."""
    vc, first = job.vc, what[0]
    most = asked_queue.scene.quota(vc).ceiling.get(first, 0)
    asks = asked_queue.asked(job.demands)
    wants, uses = asks.get(first) or asks.get("gpu", 0), asked_queue.lines[vc].use.get(first, 0)
    sentence = f"VC {vc} may use {_amount(first, most)} at most; it uses {_amount(first, uses)}, and this job asks for "
    sentence += f"{_amount(first, wants)}."
    if before is not None:
        sentence += f" {before.title} is ahead of it there; before that only those start that end in time, or that "
        sentence += "may be evicted."
    elif held := _who(first, vc, "", asked_queue):
        sentence += f" {held}"
    return Blocker("ceiling", sentence, need=_amount(first, wants), have=_amount(first, max(0, most - uses)))


def cap(job: JobT, what: Sequence[str], asked_queue: Queue[JobT]) -> Blocker:
    quota = asked_queue.scene.quota(job.vc)
    if what[0] == "jobs":
        limit = words.count(quota.user_jobs or 0, "job")
        sentence = f"A user may run {limit} at once in VC {job.vc}."
        need = "1 job"
    else:
        limit, need = _amount("gpu", quota.user_gpus or 0), _amount("gpu", asked_queue.asked(job.demands).get("gpu", 0))
        sentence = f"A user may hold {limit} at once in VC {job.vc}; this job asks for {need}."
    held = _who("gpu" if what[0] == "gpu" else "", job.vc, job.username, asked_queue)
    return Blocker("cap", f"{sentence} {held}".strip(), need=need, have=limit)


def _who(what: str, vc: str, username: str, asked_queue: Queue[JobT]) -> str:
    """ "u/a holds 4 GPUs, u/b 2 GPUs." of those who hold most of it."""
    holders: list[tuple[float, str]] = []
    for runner in asked_queue.runners:
        if runner.job.vc == vc and username in ("", runner.job.username):
            mine = asked_queue.scene.amount(runner.holds).get(what or "cpu", 0)
            if mine:
                holders.append((mine, runner.job.title))
    holders.sort(key=lambda each: (-each[0], each[1]))
    listed = [f"{title} {_amount(what, mine)}" if what else title for mine, title in holders[:MOST_NAMED]]
    if not listed:
        return ""
    more = f" and {words.count(len(holders) - MOST_NAMED, 'other')}" if len(holders) > MOST_NAMED else ""
    return f"{'Held now' if what else 'Running now'}: {', '.join(listed)}{more}."


def _amount(what: str, number: float) -> str:
    if what == "memory":
        return size(int(number))
    count = int(number + 1e-9)
    if what == "cpu":
        return words.count(count, "CPU core")
    kind = what.partition(":")[2]
    return words.count(count, f"{kind} GPU".strip())
