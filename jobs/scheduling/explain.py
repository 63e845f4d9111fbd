"""Why a waiting job waits, in words: its turn as jobs/planning/turns.py decides it, and how it failed before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.utils import timezone

from clusters.placement.fit import Blocker
from jobs import queries
from jobs.config.spec import JobSpec
from jobs.models import Job
from jobs.planning.forecast.words import current, not_before
from jobs.planning.lifecycle import JobState
from jobs.planning.streak import Streak, streak
from jobs.planning.turns import Turn
from jobs.scheduling.queue import Queued, turns_of
from portal.core import words

MOST_AHEAD = 5  # jobs named of those that start before this one


def turn_of(job: Job) -> Turn[Queued] | None:
    """Its turn; None when it does not wait, or is about to end."""
    return turns_of([job.pk]).get(job.pk) if job.state == JobState.WAITING else None


def waiting_reason(job: Job, turn: Turn[Queued] | None, before: Streak | None = None) -> dict[str, Any]:
    """``{"summary", "blockers": [{"kind", "sentence", "need"?, "have"?, "node"?, "until"?}], "position"?, "ahead":
    [{"name"}], "reservation"?, "forecast"?, "notBefore"?}`` of a waiting job; ``ahead`` are the first of those before
    it. ``turn`` is of ``turn_of``; ``before`` of ``earlier``, for those who know it."""
    if turn is None:
        return {"summary": "It does not start any more; it ends in a moment.", "blockers": [], "ahead": []}
    now = timezone.now()
    found = _reason(turn, explain(job, turn, before), current(job.forecast, now))
    after = not_before(job.forecast, now)
    return found if after is None else {**found, "notBefore": after}


def reason_if_submitted(turn: Turn[Queued], forecast: Mapping[str, int] | None) -> dict[str, Any]:
    """As ``waiting_reason``, of a job that is not submitted yet; ``forecast`` is {"p10", "p50", "p90"}."""
    return _reason(turn, turn.blockers, forecast)


def _reason(turn: Turn[Queued], found: list[Blocker], forecast: Mapping[str, int] | None) -> dict[str, Any]:
    return {
        "summary": _summary(found),
        "blockers": [{key: value for key, value in asdict(blocker).items() if value} for blocker in found],
        **_place(turn, found),
        **({"reservation": reservation(turn)} if turn.reservation else {}),
        **({"forecast": forecast} if forecast else {}),
    }


def reservation(turn: Turn[Queued]) -> dict[str, Any]:
    """The room that is kept for a job, ``{"nodes", "sentence"}``; of a turn that has some."""
    assert turn.reservation is not None
    nodes = turn.reservation.names
    sentence = f"Room is kept for it on {words.listing(nodes)}: what comes free there goes to this job first."
    return {"nodes": nodes, "sentence": sentence}


def explain(job: Job, turn: Turn[Queued], before: Streak | None = None) -> list[Blocker]:
    """Everything that keeps it from starting, most telling first. Empty: it is about to be placed. That it was evicted
    keeps it from nothing."""
    found = turn.blockers
    if any(blocker.kind == "parked" for blocker in found):
        return found
    before = before or earlier(job)
    return [Blocker("failed", before.says), *found] if before and not before.is_eviction else found


def earlier(job: Job) -> Streak | None:
    """How its attempts before this one failed; one query, and none for a first attempt."""
    if job.attempt_number == 1:
        return None
    return streak(queries.earlier_ends(job), JobSpec.from_json(job.spec).retry_count)


def _place(turn: Turn[Queued], found: list[Blocker]) -> dict[str, Any]:
    kinds = {blocker.kind for blocker in found}
    if kinds & {"never", "parked"}:
        return {"ahead": []}
    first = [one.id for one in turn.ahead[:MOST_AHEAD]] if "queue" in kinds else []
    names = Job.objects.filter(id__in=first).values_list("id", "username", "name") if first else ()
    full = {id: f"{username}~{name}" for id, username, name in names}
    return {
        "position": turn.place,
        "ahead": [{"name": full[id]} for id in first if id in full],
    }


def _summary(found: list[Blocker]) -> str:
    if not found:
        return "Nothing is in the way; it starts in a moment."
    if len(found) == 1 or found[0].kind == "failed":
        return found[0].sentence
    return f"{len(found)} things keep this job waiting."
