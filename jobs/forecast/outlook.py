"""Says what would happen to a job that is not submitted yet: whether it starts now, else when, and what would start it
sooner.

Somebody who types a config asks again and again, so an answer has bounded cost: what takes long ends after a part of a
second with what is known by then, and where very many jobs wait a picture of the cluster is looked at for some seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.placement import blockers
from clusters.placement.fit import Blocker
from clusters.users.queries import load_user
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.forecast.refresh import corrected, in_milliseconds, length_of
from jobs.forecast.scores import recent_corrections
from jobs.history.holdings import milliseconds
from jobs.planning.forecast.lengths import stem
from jobs.planning.forecast.play import Foreseen, Spread, start_of
from jobs.planning.queue.awaited import Awaited
from jobs.planning.turns import Turn, Verdict
from jobs.planning.what_if.changes import Change, smallest_changes
from jobs.scheduling.queue import Picture, Queued, recent_picture, turn_if_submitted
from portal.core.clock import deadline

FORECAST, CHANGES = 0.3, 0.3  # seconds that each may take
_LIKELY = 0.5  # part of all draws in which the same job's end lets it start: of less, no job is named


@dataclass(frozen=True, slots=True)
class Outlook:
    """``never`` says why no set of the registered nodes could run the job; ``blockers`` what keeps it from starting
    now, ``pull`` which image is pulled first if it does start. ``forecast`` is {"p10", "p50", "p90"} in milliseconds of
    a job that waits, and ``after`` the job whose end most likely lets it start."""

    turn: Turn[Queued]
    never: Blocker | None
    blockers: Sequence[Blocker] = ()
    pull: str = ""
    forecast: dict[str, int] | None = None
    after: Queued | None = None
    changes: Sequence[Change] = ()


def outlook(spec: JobSpec, awaited: Sequence[Awaited] = (), username: str = "") -> Outlook:
    """The Outlook of a job that this user would submit now. ``awaited`` are the jobs that it would wait for."""
    seen = recent_picture()
    question = _question(spec, awaited, username)
    if question not in seen.answers:
        began, is_over = time.monotonic(), deadline(FORECAST)
        turn = turn_if_submitted(seen.waiting, seen.scene, spec, awaited, username)
        foreseen = None if is_over() else _foreseen(turn, seen)  # where one turn takes so long, a forecast is hopeless
        seen.answers[question] = _outlook(turn, foreseen, username)
        seen.took = max(seen.took, time.monotonic() - began)
    found: Outlook = seen.answers[question]
    return found


def _question(spec: JobSpec, awaited: Sequence[Awaited], username: str) -> object:
    """All of a config that its turn depends on: most of what is typed changes nothing of it."""
    asked = spec.asked
    extras = asked.priority, asked.preemptible, asked.max_run_seconds
    return spec.effective_virtual_cluster, demands(spec), extras, tuple(awaited), username, stem(spec.job_name)


def _outlook(turn: Turn[Queued], foreseen: Foreseen[Queued] | None, username: str) -> Outlook:
    if turn.verdict is Verdict.GO:
        return Outlook(turn, None, pull=blockers.to_pull(turn.queue.nodes, turn.job.demands, turn.places))
    found = turn.blockers
    never = next((blocker for blocker in found if blocker.kind == "never"), None)
    owner = load_user(username) if username else None
    changes = [] if turn.error else smallest_changes(turn, owner.vcs if owner else (), deadline(CHANGES))
    return Outlook(
        turn,
        never,
        () if never else found,
        forecast=_shown(turn, foreseen.spread) if foreseen else None,
        after=foreseen.after if foreseen and foreseen.part >= _LIKELY else None,
        changes=changes,
    )


def _shown(turn: Turn[Queued], spread: Spread) -> dict[str, int]:
    job, now = turn.job, milliseconds(turn.queue.scene.now)
    return corrected(recent_corrections(now), {job.id: in_milliseconds(spread)}, {job.id: job.vc}, now)[job.id]


def _foreseen(turn: Turn[Queued], seen: Picture) -> Foreseen[Queued] | None:
    if turn.verdict is Verdict.GO or turn.error is not None or not (lengths := seen.scene.lengths()):
        return None
    now = seen.scene.now.timestamp()
    waiting = [*seen.waiting, turn.job]
    return start_of(turn.job, waiting, seen.scene, lambda job: length_of(lengths, job, now), deadline(FORECAST))
