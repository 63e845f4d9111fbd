"""Carries out a Plan: one transaction, each job whole or not at all.

A row that has moved since the picture was taken is left to the next pass: states never come back, so comparing the
state is enough. Orders are rows of the same transaction; engines are never called from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction

from clusters.models import Allocation, Node
from clusters.placement import Place
from jobs import orders
from jobs.attempts import open_attempt
from jobs.launch import name_of
from jobs.lifecycle import TASK_ENDS, JobState, TaskState, move_job, move_task
from jobs.models import Attempt, Event, Job, Task
from jobs.planner import PARK_FOR
from jobs.world import Decision, JobPlan, Kind, Order, Plan, TaskChange
from portal import wake

log = structlog.get_logger()


class Stale(Exception):
    """A row has moved on since it was looked at. The next pass sees it as it is."""


@dataclass(slots=True)
class _Writing:
    now: datetime
    node_ids: dict[str, int]
    events: list[Event] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)


def apply(plan: Plan, now: datetime) -> int:
    """Write the plan and return how many jobs changed. Raises only what the database raises."""
    changed = 0
    with transaction.atomic():
        writing = _Writing(now, dict(Node.objects.values_list("name", "id")))
        for job_plan in plan.jobs:
            changed += _job_whole(job_plan, writing)
        _hold(plan, now)
        for start in range(0, len(plan.collected), 500):
            Task.objects.filter(id__in=plan.collected[start : start + 500]).update(collected=True)
        if plan.purge:
            Job.objects.filter(id__in=plan.purge).delete()
        Event.objects.bulk_create(writing.events, batch_size=500)
        orders.send([*writing.orders, *plan.orders], now)
        if changed or plan.purge:
            wake.notify("pages")
    return changed


def _job_whole(job_plan: JobPlan, writing: _Writing) -> bool:
    """In a savepoint: what cannot be applied leaves nothing behind, and the job is parked unless it was just stale."""
    own = _Writing(writing.now, writing.node_ids)
    try:
        with transaction.atomic():
            _job(job_plan, own)
    except Stale as stale:
        log.info("left to the next pass", job=job_plan.job.name, reason=str(stale))
        return False
    except Exception as error:
        log.exception("parked", job=job_plan.job.name)
        own = _Writing(writing.now, writing.node_ids)
        _park(job_plan, f"{type(error).__name__}: {error}", own)
    writing.events += own.events
    writing.orders += own.orders
    return True


def _job(job_plan: JobPlan, writing: _Writing) -> None:
    if job_plan.parked:
        _park(job_plan, job_plan.parked, writing)
        return
    _change_tasks(job_plan, writing)
    if job_plan.places:
        _place(job_plan, job_plan.places, writing)
    if job_plan.decision:
        _decide(job_plan, job_plan.decision, writing)
    if job_plan.after:
        _end(job_plan, job_plan.after, writing)
    elif job_plan.retry:
        _retry(job_plan, writing)
    writing.orders += job_plan.orders


# --- tasks -----------------------------------------------------------------------------------------------------------


def _change_tasks(job_plan: JobPlan, writing: _Writing) -> None:
    alike: dict[tuple[TaskState, TaskState], list[int]] = {}
    for change in job_plan.changes:
        move_task(change.task.state, change.after)
        if change.exit is None and change.container is None:
            alike.setdefault((change.task.state, change.after), []).append(change.task.id)
        else:
            _move_one(change, writing.now)
        writing.events.append(_task_event(job_plan, change, writing.now))
    for (before, after), ids in alike.items():
        for start in range(0, len(ids), 500):
            some = ids[start : start + 500]
            values: dict[str, Any] = {"state": after, "changed_at": writing.now, "ordered_at": None}
            if Task.objects.filter(id__in=some, state=before).update(**values) != len(some):
                raise Stale(f"a task is no longer {before}")
    _give_back([change.task.id for change in job_plan.changes if change.after in TASK_ENDS])


def _move_one(change: TaskChange, now: datetime) -> None:
    values: dict[str, Any] = {"state": change.after, "changed_at": now, "progress": ""}
    container = change.container
    if container is not None:
        values |= {"container_id": container.id, "container_started_at": container.started_at}
    if change.exit is not None:
        finished = container.finished_at if container is not None else None
        values |= {
            "exit_code": change.exit.code,
            "exit": change.exit.to_json(),
            "finished_at": finished or now,
            "collected": change.collected,
            "ordered_at": None,
        }
    if not Task.objects.filter(id=change.task.id, state=change.task.state).update(**values):
        raise Stale(f"{change.task.label} is no longer {change.task.state}")


def _give_back(ended: list[int]) -> None:
    for start in range(0, len(ended), 500):
        Allocation.objects.filter(owner__in=[str(id) for id in ended[start : start + 500]]).delete()


def _place(job_plan: JobPlan, places: list[Place], writing: _Writing) -> None:
    job = job_plan.job
    attempt = Attempt.objects.get(job=job.id, number=job.attempt_number)
    rows = Task.objects.filter(attempt=attempt, state=TaskState.WAITING).values_list("role", "index", "id")
    ids = {(role, index): id for role, index, id in rows}
    if len(ids) != len(places):
        raise Stale("its tasks are not all waiting")
    username = job.name.partition("/")[0]
    allocations = []
    for place in places:
        id = ids[place.role, place.index]
        start = (place.role, place.index) in job_plan.start_now
        Task.objects.filter(id=id).update(
            state=move_task(TaskState.WAITING, TaskState.STARTING),
            changed_at=writing.now,
            node=place.node,
            address=place.address,
            gpu_ids=list(place.gpu_ids),
            ports=place.ports,
            container_name=name_of(
                settings.INSTANCE, username, job.spec.job_name, job.attempt_number, place.role, place.index, id
            ),
        )
        allocations.append(_allocation(job_plan, place, id, writing))
        if start:
            writing.orders.append(Order(Kind.START, id, place.node))
    Allocation.objects.bulk_create(allocations, batch_size=500)
    attempt.launched_at = writing.now
    attempt.save(update_fields=["launched_at"])
    _move_job(job_plan, JobState.RUNNING, writing.now, started_at=writing.now, not_before=None)
    nodes = sorted({place.node for place in places})
    reason = f"All {len(places)} tasks placed on {', '.join(nodes[:5])}{' and others' if len(nodes) > 5 else ''}."
    writing.events.append(_job_event(job_plan, writing.now, "job.placed", JobState.RUNNING, reason, nodes=nodes[:100]))


def _allocation(job_plan: JobPlan, place: Place, task_id: int, writing: _Writing) -> Allocation:
    role = job_plan.job.spec.role(place.role)
    if place.node not in writing.node_ids:
        raise Stale(f"node {place.node} is gone")
    return Allocation(
        owner=str(task_id),
        node_id=writing.node_ids[place.node],
        vc=job_plan.job.vc,
        cpus=role.cpu_number,
        memory_mb=role.memory_mb,
        gpu_ids=list(place.gpu_ids),
        ports=[port for ports in place.ports.values() for port in ports],
    )


# --- attempts and jobs -----------------------------------------------------------------------------------------------


def _decide(job_plan: JobPlan, decision: Decision, writing: _Writing) -> None:
    exit_ = decision.exit
    values = {
        "decided_at": writing.now,
        "exit_code": exit_.code,
        "exit": {
            "trigger": decision.trigger,
            "role": decision.role,
            "index": decision.index,
            "reason": exit_.sentence,
            "exit": exit_.to_json(),
        },
    }
    Attempt.objects.filter(job=job_plan.job.id, number=job_plan.job.attempt_number).update(**values)
    writing.events.append(
        _job_event(
            job_plan, writing.now, "attempt.decided", None, exit_.sentence, code=exit_.code, trigger=decision.trigger
        )
    )


def _end(job_plan: JobPlan, after: JobState, writing: _Writing) -> None:
    job, attempt = job_plan.job, _close_attempt(job_plan, writing.now)
    Task.objects.filter(attempt=attempt, state=TaskState.WAITING).update(
        state=move_task(TaskState.WAITING, TaskState.STOPPED),
        changed_at=writing.now,
        finished_at=writing.now,
        collected=True,
    )
    _move_job(job_plan, after, writing.now, exit_code=attempt.exit_code, completed_at=writing.now, not_before=None)
    reason = attempt.exit.get("reason", "")
    writing.events.append(_job_event(job_plan, writing.now, "job.ended", after, reason, code=attempt.exit_code))
    log.info("job ended", job=job.name, state=str(after), code=attempt.exit_code)


def _retry(job_plan: JobPlan, writing: _Writing) -> None:
    job, retry = job_plan.job, job_plan.retry
    assert retry is not None
    _close_attempt(job_plan, writing.now, follows=retry.reason)
    counter = f"{retry.counter}_retries"
    _move_job(
        job_plan,
        JobState.WAITING,
        writing.now,
        queued_at=writing.now,
        not_before=writing.now + timedelta(seconds=retry.delay) if retry.delay else None,
        attempt_number=job.attempt_number + 1,
        **{counter: getattr(job, counter) + 1},
    )
    open_attempt(Job.objects.get(id=job.id), job.attempt_number + 1, writing.now)
    writing.events.append(_job_event(job_plan, writing.now, "job.retry", JobState.WAITING, retry.reason))


def _close_attempt(job_plan: JobPlan, now: datetime, follows: str = "") -> Attempt:
    attempt = Attempt.objects.get(job=job_plan.job.id, number=job_plan.job.attempt_number)
    attempt.completed_at = now
    if follows:
        attempt.exit["next"] = follows
    attempt.save(update_fields=["completed_at", "exit"])
    return attempt


def _move_job(job_plan: JobPlan, after: JobState, now: datetime, **values: Any) -> None:
    before = job_plan.job.state
    rows = Job.objects.filter(id=job_plan.job.id, state=before)
    if not rows.update(state=move_job(before, after), changed_at=now, **values):
        raise Stale(f"it is no longer {before}")


def _park(job_plan: JobPlan, reason: str, writing: _Writing) -> None:
    until = writing.now + PARK_FOR
    Job.objects.filter(id=job_plan.job.id).update(parked_until=until)
    text = "Longshore could not plan this job and looks at it again in a minute. Please report it."
    writing.events.append(_job_event(job_plan, writing.now, "job.parked", None, text, error=reason[:500]))


def _hold(plan: Plan, now: datetime) -> None:
    """What quarantine holds is written down where pages and API see it."""
    for node in Node.objects.only("id", "name", "held"):
        if node.name not in plan.held:
            continue
        gpus, ports = plan.held[node.name]
        held = {"gpus": sorted(gpus), "ports": sorted(ports)} if gpus or ports else {}
        if held != node.held:
            Node.objects.filter(id=node.pk).update(held=held, updated_at=now)


# --- events ----------------------------------------------------------------------------------------------------------


def _task_event(job_plan: JobPlan, change: TaskChange, now: datetime) -> Event:
    return Event(
        at=now,
        kind="task.state",
        job_id=job_plan.job.id,
        attempt=job_plan.job.attempt_number,
        task=change.task.label,
        node=change.task.node,
        before=change.task.state,
        after=change.after,
        reason=change.exit.sentence if change.exit else "",
        data={"code": change.exit.code} if change.exit else {},
    )


def _job_event(job_plan: JobPlan, now: datetime, kind: str, after: JobState | None, reason: str, **data: Any) -> Event:
    return Event(
        at=now,
        kind=kind,
        job_id=job_plan.job.id,
        attempt=job_plan.job.attempt_number,
        before=job_plan.job.state if after else "",
        after=after or "",
        reason=reason,
        data=data,
    )
