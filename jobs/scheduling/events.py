"""The Events that a plan writes into the ledger, each with its reason in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from clusters.placement.fit import Placement
from jobs.models import Event
from jobs.planning.lifecycle import JobState
from jobs.planning.world import Evicted, JobPlan, KeptTask, TaskChange


def task_event(plan: JobPlan, change: TaskChange, now: datetime) -> Event:
    return Event(
        at=now,
        kind="task.state",
        job_id=plan.job.id,
        attempt=plan.job.attempt_number,
        task=change.task.label,
        node=change.task.node,
        before=change.task.state,
        after=change.after,
        reason=change.exit.sentence if change.exit else "",
        data={"code": change.exit.code} if change.exit else {},
    )


def placed_event(plan: JobPlan, places: Sequence[Placement], now: datetime) -> Event:
    nodes = sorted({place.node for place in places})
    others = " and others" if len(nodes) > 5 else ""
    tasks = f"All {len(places)} tasks were" if len(places) > 1 else "The task was"
    reason = f"{tasks} placed on {', '.join(nodes[:5])}{others}."
    return job_event(plan, now, "job.placed", JobState.RUNNING, reason, nodes=nodes[:100])


def evicted_events(plan: JobPlan, why: Evicted, now: datetime) -> list[Event]:
    """One for the job that is evicted, and one for the job that it makes room for."""
    data = {"room": why.room, "owner": why.owner, "victim": plan.job.id, "guest": why.was_guest}
    events = [job_event(plan, now, "job.evicted", None, why.reason, **data)]
    if why.owner is not None:
        reason = f"{plan.job.name} is evicted for this job: {why.room}. {why.reason}"
        kind, at = "job.reclaimed", {"job_id": why.owner, "attempt": why.owner_attempt}
        events.append(Event(at=now, kind=kind, reason=reason, data=data, **at))
    return events


def kept_event(plan: JobPlan, kept: KeptTask, now: datetime) -> Event:
    how = "failed" if kept.code is None else f"ended with exit code {kept.code}"
    reason = f"The command of {kept.task.label} {how}. Its container is kept for debugging."
    event = job_event(plan, now, "task.held", None, reason)
    event.task, event.node = kept.task.label, kept.task.node
    return event


def job_event(plan: JobPlan, now: datetime, kind: str, after: JobState | None, reason: str, **data: Any) -> Event:
    return Event(
        at=now,
        kind=kind,
        job_id=plan.job.id,
        attempt=plan.job.attempt_number,
        before=plan.job.state if after else "",
        after=after or "",
        reason=reason,
        data=data,
    )
