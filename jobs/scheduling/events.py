"""The Events that a plan writes into the ledger, each with its reason in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from clusters.placement.fit import Placement
from jobs.planning.lifecycle import JobState
from jobs.planning.world import Evicted, JobPlan, KeptTask, TaskChange


class Entry(NamedTuple):
    """A new row of the ledger, with the fields of Event: a pass may write a thousand, and objects of a model cost ten
    times as much."""

    at: datetime
    kind: str
    job_id: int | None = None
    attempt: int | None = None
    task: str = ""
    node: str = ""
    actor: str = "scheduler"
    before: str = ""
    after: str = ""
    reason: str = ""
    data: dict[str, Any] = {}


def task_event(plan: JobPlan, change: TaskChange, now: datetime) -> Entry:
    return Entry(
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


def placed_event(plan: JobPlan, places: Sequence[Placement], now: datetime) -> Entry:
    nodes = sorted({place.node for place in places})
    others = " and others" if len(nodes) > 5 else ""
    tasks = f"All {len(places)} tasks were" if len(places) > 1 else "The task was"
    reason = f"{tasks} placed on {', '.join(nodes[:5])}{others}."
    return job_event(plan, now, "job.placed", JobState.RUNNING, reason, nodes=nodes[:100])


def evicted_events(plan: JobPlan, why: Evicted, now: datetime) -> list[Entry]:
    """One for the job that is evicted, and one for the job that it makes room for."""
    data = {"room": why.room, "owner": why.owner, "victim": plan.job.id, "guest": why.was_guest}
    events = [job_event(plan, now, "job.evicted", None, why.reason, **data)]
    if why.owner is not None:
        reason = f"{plan.job.name} is evicted for this job: {why.room}. {why.reason}"
        kind = "job.reclaimed"
        events.append(Entry(now, kind, why.owner, why.owner_attempt, reason=reason, data=data))
    return events


def kept_event(plan: JobPlan, kept: KeptTask, now: datetime) -> Entry:
    how = "failed" if kept.code is None else f"ended with exit code {kept.code}"
    reason = f"The command of {kept.task.label} {how}. Its container is kept for debugging."
    return job_event(plan, now, "task.held", None, reason)._replace(task=kept.task.label, node=kept.task.node)


def job_event(plan: JobPlan, now: datetime, kind: str, after: JobState | None, reason: str, **data: Any) -> Entry:
    return Entry(
        at=now,
        kind=kind,
        job_id=plan.job.id,
        attempt=plan.job.attempt_number,
        before=plan.job.state if after else "",
        after=after or "",
        reason=reason,
        data=data,
    )
