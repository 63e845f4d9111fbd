"""Why a waiting job waits: computed when somebody asks, from what is true then, with the planner's own functions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from clusters.models import VirtualCluster
from clusters.nodes.queries import load_nodes
from clusters.placement.blockers import blockers, never_fits
from clusters.placement.fit import Blocker
from jobs import queries
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.planning.streak import Streak, streak
from portal.core import words

MOST_AHEAD = 5  # jobs named of those that start before this one


def waiting_reason(job: Job, before: Streak | None = None) -> dict[str, Any] | None:
    """``{"summary", "blockers": [{"kind", "sentence", "need"?, "have"?, "node"?, "until"?}], "position"?, "ahead":
    [{"name"}]}``, of those ahead the first; None when it does not wait. ``before`` is what ``earlier`` says, for those
    who know it."""
    if job.state != JobState.WAITING:
        return None
    found = explain(job, before or earlier(job))
    return {
        "summary": _summary(found),
        "blockers": [{key: value for key, value in asdict(blocker).items() if value} for blocker in found],
        **_place(job, found),
    }


def explain(job: Job, before: Streak | None = None) -> list[Blocker]:
    """Everything that keeps it from starting, most telling first. Empty: it is about to be placed."""
    now = timezone.now()
    if job.parked_until is not None and job.parked_until > now:
        return [Blocker("parked", "Longshore could not plan this job. It looks again in a minute; its events say why.")]
    spec = JobSpec.from_json(job.spec)
    found: list[Blocker] = []
    if before:
        found.append(Blocker("failed", before.says))
    if job.not_before is not None and job.not_before > now:
        until = timezone.localtime(job.not_before)
        wait = words.duration((job.not_before - now).total_seconds())
        said = f"The next try is in {wait}, at {until:%H:%M:%S} ({words.zone(until)})."
        found.append(Blocker("delay", said, until=until.isoformat(timespec="seconds")))
    if VirtualCluster.objects.filter(name=job.vc).exclude(status=VirtualCluster.Status.RUNNING).exists():
        found.append(Blocker("vc_stopped", f"VC {job.vc} is stopped, so nothing new starts in it."))
    nodes, wanted = load_nodes(), demands(spec)
    never = never_fits(nodes, wanted)
    found += [never] if never else blockers(nodes, wanted)
    ahead = place_in_queue(job) - 1
    if ahead and not never:
        jobs = "One job is" if ahead == 1 else f"{ahead} jobs are"
        found.append(
            Blocker("queue", f"{jobs} ahead of it in VC {job.vc}, which starts jobs in order.", have=str(ahead))
        )
    return found


def _place(job: Job, found: list[Blocker]) -> dict[str, Any]:
    kinds = {blocker.kind: blocker for blocker in found}
    if "never" in kinds or "parked" in kinds:
        return {"ahead": []}
    if "queue" not in kinds:
        return {"position": 1, "ahead": []}
    names = _queue(job).order_by("id").values_list("username", "name")[:MOST_AHEAD]
    return {
        "position": 1 + int(kinds["queue"].have),
        "ahead": [{"name": f"{username}~{name}"} for username, name in names],
    }


def earlier(job: Job) -> Streak | None:
    """How its attempts before this one failed; one query, and none for a first attempt."""
    if job.attempt_number == 1:
        return None
    return streak(queries.earlier_ends(job), JobSpec.from_json(job.spec).retry_count)


def place_in_queue(job: Job) -> int:
    """1 is next."""
    return 1 + _queue(job).count()


def _queue(job: Job) -> QuerySet[Job]:
    """What is ahead of it."""
    waiting = Job.objects.filter(vc=job.vc, state=JobState.WAITING, deleted_at__isnull=True, execution="START")
    return waiting.filter(id__lt=job.pk, never="")


def _summary(found: list[Blocker]) -> str:
    if not found:
        return "Nothing is in the way; it starts in a moment."
    if len(found) == 1 or found[0].kind == "failed":
        return found[0].sentence
    return f"{len(found)} things keep this job waiting."
