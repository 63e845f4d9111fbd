"""Says what would happen to a job that is not submitted yet: whether it starts now, else when, and what would start it
sooner.

Somebody who types a config asks again and again, so an answer has bounded cost: what takes long ends after a part of a
second with what is known by then, and where very many jobs wait one look at the queue serves for some seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from base.core.clock import deadline
from base.core.values import milliseconds
from base.models import User
from clusters.placement import blockers
from clusters.placement.fit import Blocker
from clusters.vcs.grants import priorities
from jobs import access
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.forecast.play import Foreseen, Spread, start_of
from jobs.forecast.refresh import corrected, in_milliseconds, length_of
from jobs.forecast.scores import recent_corrections
from jobs.planning.queue.lengths import stem
from jobs.planning.queue.scene import Awaited
from jobs.planning.turns import Move, Turn
from jobs.waiting.changes import Change, smallest_changes
from jobs.waiting.queue import RecentQueue, WaitingJob, recent_queue, turn_if_submitted

FORECAST, CHANGES = 0.3, 0.3  # seconds that each may take
_LIKELY = 0.5  # part of all draws in which the same job's end lets it start: of less, no job is named


@dataclass(frozen=True, slots=True)
class Outlook:
    """``never`` says why no set of the registered nodes could run the job; ``blockers`` what keeps it from starting
    now, ``pull`` which image is pulled first if it does start. ``forecast`` is {"p10", "p50", "p90"} in milliseconds of
    a job that waits, and ``after`` the job whose end most likely lets it start."""

    turn: Turn[WaitingJob]
    never: Blocker | None
    blockers: Sequence[Blocker] = ()
    pull: str = ""
    forecast: dict[str, int] | None = None
    after: WaitingJob | None = None
    changes: Sequence[Change] = ()
    ran: float | None = None  # seconds; half of the jobs of the like that have ended ran shorter


def outlook(spec: JobSpec, awaited: Sequence[Awaited] = (), username: str = "") -> Outlook:
    """The Outlook of a job that this user would submit now. ``awaited`` are the jobs that it would wait for."""
    seen = recent_queue()
    question = _question(spec, awaited, username)
    if question not in seen.answers:
        began, is_over = time.monotonic(), deadline(FORECAST)
        turn = turn_if_submitted(seen.waiting, seen.scene, spec, awaited, username)
        # Where one turn takes so long, a forecast is hopeless.
        foreseen = None if is_over() else _foreseen(turn, seen, deadline(FORECAST))
        without_changes = _outlook(turn, foreseen, seen)
        seen.answers[question] = replace(without_changes, changes=_changes(without_changes, username))
        seen.took = max(seen.took, time.monotonic() - began)
    answer: Outlook = seen.answers[question]
    return answer


def outlooks(specs: Sequence[JobSpec], username: str) -> list[Outlook]:
    """Return the outlooks of jobs of which this user would submit one now, without what would start them sooner; each
    must have its demands. Those for which there is no time left have no forecast."""
    seen, is_over = recent_queue(), deadline(FORECAST)
    questions = [("of many", _question(spec, (), username)) for spec in specs]
    new = {asked: spec for asked, spec in zip(questions, specs, strict=True) if asked not in seen.answers}
    turns = [turn_if_submitted(seen.waiting, seen.scene, spec, (), username) for spec in new.values()]
    for question, turn in zip(new, turns, strict=True):
        seen.answers[question] = _outlook(turn, None if is_over() else _foreseen(turn, seen, is_over), seen)
    return [seen.answers[question] for question in questions]


def _question(spec: JobSpec, awaited: Sequence[Awaited], username: str) -> object:
    """All of a config that its turn depends on: most of what is typed changes nothing of it."""
    asked = spec.asked
    extras = asked.priority, asked.preemptible, asked.max_run_seconds
    return spec.effective_virtual_cluster, demands(spec), extras, tuple(awaited), username, stem(spec.job_name)


def _changes(known: Outlook, username: str) -> Sequence[Change]:
    """Return what would start it now."""
    if known.turn.move is Move.GO or known.turn.error:
        return ()
    owner = User.objects.filter(username=username).first()
    vcs = priorities(username, is_admin=owner.is_admin) if owner else {}
    return smallest_changes(known.turn, vcs, deadline(CHANGES))


def _outlook(turn: Turn[WaitingJob], foreseen: Foreseen[WaitingJob] | None, seen: RecentQueue) -> Outlook:
    ran = _ran(turn.job, seen)
    if turn.move is Move.GO:
        return Outlook(
            turn, None, pull=blockers.to_pull(turn.queue.scene.nodes, turn.job.demands, turn.placements), ran=ran
        )
    blocking = access.told(turn.blockers, turn.job.username)
    never = next((blocker for blocker in blocking if blocker.kind == "never"), None)
    return Outlook(
        turn,
        never,
        () if never else blocking,
        forecast=_shown(turn, foreseen.spread) if foreseen else None,
        after=foreseen.after if foreseen and foreseen.part >= _LIKELY else None,
        ran=ran,
    )


def _ran(job: WaitingJob, seen: RecentQueue) -> float | None:
    """The median of how long jobs of the like ran, in seconds; None where no job of the like has ended."""
    lengths = seen.scene.lengths()
    if not lengths or not lengths.number(job.like):
        return None
    quantiles = lengths.quantiles(job.like, 0.0, job.most_seconds)
    return quantiles[len(quantiles) // 2]


def _shown(turn: Turn[WaitingJob], spread: Spread) -> dict[str, int]:
    job, now = turn.job, milliseconds(turn.queue.scene.now)
    return corrected(recent_corrections(now), {job.id: in_milliseconds(spread)}, {job.id: job.vc}, now)[job.id]


def _foreseen(turn: Turn[WaitingJob], seen: RecentQueue, is_over: Callable[[], bool]) -> Foreseen[WaitingJob] | None:
    if turn.move is Move.GO or turn.error is not None or not (lengths := seen.scene.lengths()):
        return None
    now = seen.scene.now.timestamp()
    waiting = [*seen.waiting, turn.job]
    return start_of(turn.job, waiting, turn.queue.scene, lambda job: length_of(lengths, job, now), is_over)
