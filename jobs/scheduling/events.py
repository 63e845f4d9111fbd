"""The Events that a plan writes into the ledger, each with its reason in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from clusters.placement.fit import Placement
from jobs.planning import exits
from jobs.planning.lifecycle import JobState
from jobs.planning.world import Eviction, HeldTask, JobPlan, TaskChange, TaskView


class NewEvent(NamedTuple):
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


def task_event(plan: JobPlan, change: TaskChange, now: datetime) -> NewEvent:
    return NewEvent(
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


def placed_event(plan: JobPlan, placements: Sequence[Placement], now: datetime) -> NewEvent:
    nodes = sorted({place.node for place in placements})
    others = " and others" if len(nodes) > 5 else ""
    tasks = f"All {len(placements)} tasks were" if len(placements) > 1 else "The task was"
    reason = f"{tasks} placed on {', '.join(nodes[:5])}{others}."
    return job_event(plan, now, "job.placed", JobState.RUNNING, reason, nodes=nodes[:100])


def evicted_events(plan: JobPlan, why: Eviction, now: datetime) -> list[NewEvent]:
    """Make two Events: of the job that is evicted, and of the job that it makes room for. Each knows the other job by
    its id, and jobs/history/ledger.py names it."""
    data = {"room": why.gives_back, "owner": why.owner, "victim": plan.job.id, "guest": why.was_guest}
    events = [job_event(plan, now, "job.evicted", None, why.reason, **data)]
    if why.owner is not None:
        for_it = why.reason.replace(exits.OTHER, why.owner_title, 1)
        reason = f"{exits.OTHER.capitalize()} is evicted for this job: {why.gives_back}. {for_it}"
        kind = "job.reclaimed"
        events.append(NewEvent(now, kind, why.owner, why.owner_attempt, reason=reason, data=data))
    return events


def held_event(plan: JobPlan, held: HeldTask, now: datetime) -> NewEvent:
    reason = f"{held.exit.sentence} Its container is kept for debugging."
    return job_event(plan, now, "task.held", None, reason)._replace(task=held.task.label, node=held.task.node)


def paused_event(plan: JobPlan, task: TaskView, now: datetime, *, is_paused: bool) -> NewEvent:
    reason = f"{task.label} goes on: its container is not paused any more."
    if is_paused:
        reason = f"{task.label} is paused: somebody has frozen its container on node {task.node}, and can unpause it."
    kind = "task.paused" if is_paused else "task.unpaused"
    return job_event(plan, now, kind, None, reason)._replace(task=task.label, node=task.node)


def job_event(plan: JobPlan, now: datetime, kind: str, after: JobState | None, reason: str, **data: Any) -> NewEvent:
    return NewEvent(
        at=now,
        kind=kind,
        job_id=plan.job.id,
        attempt=plan.job.attempt_number,
        before=plan.job.state if after else "",
        after=after or "",
        reason=reason,
        data=data,
    )
