"""Why a waiting job waits: computed when somebody asks, from what is true then, with the planner's own functions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils import timezone

from clusters.blockers import blockers, never_fits
from clusters.models import VirtualCluster
from clusters.placement import Blocker
from clusters.queries import load_nodes
from jobs.demands import demands
from jobs.lifecycle import JobState
from jobs.models import Job
from jobs.spec import JobSpec


def waiting_reason(job: Job) -> dict[str, Any] | None:
    """``{"summary", "blockers": [{"kind", "sentence", "need"?, "have"?, "node"?, "until"?}]}``; None when it does not
    wait."""
    if job.state != JobState.WAITING:
        return None
    found = explain(job)
    return {
        "summary": _summary(found),
        "blockers": [{key: value for key, value in asdict(blocker).items() if value} for blocker in found],
    }


def explain(job: Job) -> list[Blocker]:
    """Everything that keeps it from starting, most telling first. Empty: it is about to be placed."""
    now = timezone.now()
    if job.parked_until is not None and job.parked_until > now:
        return [Blocker("parked", "Longshore could not plan this job. It looks again in a minute; its events say why.")]
    found: list[Blocker] = []
    if job.not_before is not None and job.not_before > now:
        until = timezone.localtime(job.not_before)
        found.append(Blocker("delay", f"The next try is at {until:%H:%M:%S}, after a pause.", until=until.isoformat()))
    if VirtualCluster.objects.filter(name=job.vc).exclude(status=VirtualCluster.Status.RUNNING).exists():
        found.append(Blocker("vc_stopped", f"VC {job.vc} is stopped, so nothing new starts in it."))
    nodes, wanted = load_nodes(), demands(JobSpec.from_json(job.spec))
    never = never_fits(nodes, wanted)
    found += [never] if never else blockers(nodes, wanted)
    ahead = place_in_queue(job) - 1
    if ahead and not never:
        jobs = "One job is" if ahead == 1 else f"{ahead} jobs are"
        found.append(
            Blocker("queue", f"{jobs} ahead of it in VC {job.vc}, which starts jobs in order.", have=str(ahead))
        )
    return found


def place_in_queue(job: Job) -> int:
    """1 is next."""
    waiting = Job.objects.filter(vc=job.vc, state=JobState.WAITING, deleted_at__isnull=True, execution="START")
    return 1 + waiting.filter(id__lt=job.pk, never="").count()


def _summary(found: list[Blocker]) -> str:
    if not found:
        return "Nothing is in the way; it starts in a moment."
    if len(found) == 1:
        return found[0].sentence
    return f"{len(found)} things keep this job waiting."
