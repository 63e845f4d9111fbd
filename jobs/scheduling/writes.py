"""Writes the plans of jobs into rows, with one statement for all that many jobs need of one kind.

Only jobs/scheduling/apply.py calls it, in a savepoint that ``Stale`` rolls back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from django.db.models import F, QuerySet

from base.core.bulk import Row, chunks, insert_values, update_rows, values_with_ids, with_ids
from clusters.models import Allocation, Node
from clusters.nodes.refusals import ports_refused
from clusters.placement.fit import Placement
from jobs import dependencies
from jobs.attempts import open_attempt
from jobs.containers.launch import name_of
from jobs.history import holdings
from jobs.models import Attempt, Job, Task
from jobs.planning import exits
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import TASK_END_STATES, JobState, TaskState, move_job, move_task
from jobs.planning.streak import MANY, streak
from jobs.planning.world import PAUSED, HeldTask, JobPlan, Order, OrderKind, TaskChange, TaskView
from jobs.scheduling import remembered
from jobs.scheduling.events import (
    NewEvent,
    evicted_events,
    held_event,
    job_event,
    paused_event,
    placed_event,
    task_event,
)

log = structlog.get_logger()

_ALLOCATION = ("owner", "node", "vc", "cpus", "memory_mb", "gpu_ids", "ports", "created_at")
_STARTING = move_task(TaskState.WAITING, TaskState.STARTING)
_NO_FAILURE = (None, exits.SUCCEEDED, exits.JOB_STOPPED, exits.PREEMPTED)


class Stale(Exception):
    """A row has changed since it was read. The next pass reads it again."""


@dataclass(slots=True)
class ToWrite:
    """The rows that are written at the end of the transaction, for all jobs together."""

    now: datetime
    events: list[NewEvent] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    starts: list[Order] = field(default_factory=list)  # the rows of their tasks say already that they are ordered


def write(plans: Sequence[JobPlan], writing: ToWrite) -> None:
    """Write everything that these jobs need, none of which is parked. Raises Stale."""
    _change_tasks([(plan, change) for plan in plans for change in plan.changes], writing)
    _hold([(plan, held) for plan in plans for held in plan.held], writing)
    for plan in plans:
        if plan.released:
            _release(plan, writing)
    _note([(plan, *noted) for plan in plans for noted in plan.noted], writing)
    _place([plan for plan in plans if plan.placements], writing)
    _decide([plan for plan in plans if plan.decision], writing)
    _end([plan for plan in plans if plan.after], writing)
    for plan in plans:
        if plan.retry and not plan.after:
            _retry(plan, writing)
        writing.orders += plan.orders


# --- tasks -----------------------------------------------------------------------------------------------------------


def _change_tasks(changes: Sequence[tuple[JobPlan, TaskChange]], writing: ToWrite) -> None:
    alike: dict[tuple[TaskState, TaskState], list[int]] = {}
    own: dict[tuple[str, ...], list[Row]] = {}
    for plan, change in changes:
        after = move_task(change.task.state, change.after)
        if change.exit is None and change.container is None:
            alike.setdefault((change.task.state, after), []).append(change.task.id)
        else:
            values = {"state": after, **_learnt(change, writing.now)}
            own.setdefault(tuple(values), []).append((*values.values(), change.task.id, change.task.state))
        writing.events.append(task_event(plan, change, writing.now))
    for columns, rows in own.items():
        _update_all(Task, columns, ["id", "state"], rows)
    for (before, after), ids in alike.items():
        for some in chunks(ids):
            moved = {"state": after, "changed_at": writing.now, "ordered_at": None}
            if with_ids(Task.objects.filter(state=before), some).update(**moved) != len(some):
                raise Stale(f"a task is no longer {before}")
    ended = [(plan, change) for plan, change in changes if change.after in TASK_END_STATES]
    refused = [str(change.task.id) for _, change in ended if change.exit and change.exit.code == exits.PORT_CONFLICT]
    for tasks in chunks(refused):
        _note_refused_ports(tasks, writing.now)
    for gone in chunks([str(change.task.id) for _, change in ended]):
        Allocation.objects.filter(owner__in=gone).delete()
    holdings.close_rows([(change.task.id, _outcome(plan) or change.exit) for plan, change in ended], writing.now)


def _note_refused_ports(tasks: Sequence[str], now: datetime) -> None:
    """Which of a task's ports was refused is not always known, so its node gives none of them out for some time."""
    ports_of: dict[int, list[int]] = {}
    for node, ports in Allocation.objects.filter(owner__in=tasks).values_list("node_id", "ports"):
        ports_of.setdefault(node, []).extend(ports)
    ports_refused(ports_of, now)


def _outcome(plan: JobPlan) -> Exit | None:
    """How the task's attempt ends, if that is decided: what its tasks held was used for that."""
    return plan.decision.exit if plan.decision is not None else plan.job.decided


def _learnt(change: TaskChange, now: datetime) -> dict[str, Any]:
    """The values that are written beside the state. A new state has no order yet."""
    values: dict[str, Any] = {"changed_at": now, "progress": "", "ordered_at": None}
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
        }
    return values


def _hold(tasks: Sequence[tuple[JobPlan, HeldTask]], writing: ToWrite) -> None:
    for _, held in tasks:
        rows = Task.objects.filter(id=held.task.id, state=TaskState.RUNNING, held_at=None)
        rows.update(held_at=writing.now, exit=held.exit.to_json())
    writing.events += [held_event(plan, held, writing.now) for plan, held in tasks]


def _release(plan: JobPlan, writing: ToWrite) -> None:
    """What is kept for debugging ends, as when its owner releases it."""
    rows = with_ids(Task.objects.filter(state=TaskState.RUNNING, released_at=None), [each.id for each in plan.released])
    if rows.update(released_at=writing.now):
        reason = f"{plan.released_for} What was kept for debugging ends."
        writing.events.append(job_event(plan, writing.now, "job.released", None, reason))


def _note(tasks: Sequence[tuple[JobPlan, TaskView, str]], writing: ToWrite) -> None:
    for plan, task, says in tasks:
        running = Task.objects.filter(id=task.id, state=TaskState.RUNNING)
        running.update(progress=says, changed_at=writing.now)
        if PAUSED in (task.progress, says):
            writing.events.append(paused_event(plan, task, writing.now, is_paused=bool(says)))


def _place(plans: Sequence[JobPlan], writing: ToWrite) -> None:
    if not plans:
        return
    waiting = _waiting_tasks(plans)
    nodes = _nodes({place.node for plan in plans for place in plan.placements})
    rows, held, allocations = list[Row](), list[Row](), list[Row]()
    for plan in plans:
        placements, attempt = plan.placements, waiting.get(plan.job.id)
        if attempt is None or len(attempt.tasks) != len(placements):
            _attempts([plan])[plan.job.id]  # raises KeyError for a job without it, which is parked then
            raise Stale("its tasks are not all waiting")
        tasks, types = [attempt.tasks[place.role, place.index] for place in placements], []
        for place, id in zip(placements, tasks, strict=True):
            is_ordered = (place.role, place.index) in plan.start_now
            rows.append(_placed_task(plan, place, id, attempt.app_id, writing.now, is_ordered=is_ordered))
            if place.node not in nodes:
                raise Stale(f"node {place.node} is gone")
            node_id, gpu_types = nodes[place.node]
            types.append(gpu_types)
            allocations.append(_allocation(plan, place, id, node_id, writing.now))
            if is_ordered:
                writing.starts.append(Order(OrderKind.START, id, place.node))
        held += holdings.new_rows(plan, attempt.created_at, tasks, types, writing.now)
        writing.events.append(placed_event(plan, placements, writing.now))
    changed = ["state", "changed_at", "ordered_at", "node", "address", "gpu_ids", "ports", "container_name"]
    _update_all(Task, changed, ["id", "state"], rows)
    insert_values(Allocation, _ALLOCATION, allocations)
    holdings.open_rows(held)
    for some in chunks([waiting[plan.job.id].id for plan in plans]):
        with_ids(Attempt.objects.all(), some).update(launched_at=writing.now)
    fresh: dict[str, Any] = dict.fromkeys(("not_before", "ends_by", "forecast", "displaced", "saved_at"))
    fresh |= {"started_at": writing.now, "is_guest": False, "keeps_turn": False}
    _move_jobs(plans, JobState.RUNNING, writing.now, **fresh)
    for guests in chunks([plan.job.id for plan in plans if plan.is_guest]):
        with_ids(Job.objects.all(), guests).update(is_guest=True)
    ends = [(end, plan.job.id) for plan in plans if (end := plan.job.would_end(writing.now)) is not None]
    update_rows(Job, ["ends_by"], ["id"], ends)
    if owners := [(plan.job.title, plan.job.displaced) for plan in plans if plan.job.displaced]:
        remembered.rest_those_of(owners, writing.now)


def _placed_task(plan: JobPlan, place: Placement, id: int, app_id: str, now: datetime, *, is_ordered: bool) -> Row:
    job = plan.job
    container = name_of(app_id, job.username, job.name, job.attempt_number, place.role, place.index)
    what = place.node, place.address, list(place.gpu_ids), place.ports, container
    return (_STARTING, now, now if is_ordered else None, *what, id, TaskState.WAITING)


def _allocation(plan: JobPlan, place: Placement, task_id: int, node_id: int, now: datetime) -> Row:
    role = plan.job.spec.role(place.role)
    ports = [port for ports in place.ports.values() for port in ports]
    return (str(task_id), node_id, plan.job.vc, role.cpu_number, role.memory_mb, list(place.gpu_ids), ports, now)


# --- attempts and jobs -----------------------------------------------------------------------------------------------


def _decide(plans: Sequence[JobPlan], writing: ToWrite) -> None:
    rows: list[Row] = []
    for plan in plans:
        job, decision = plan.job, plan.decision
        assert decision is not None
        exit_ = decision.exit
        told = {
            "trigger": decision.trigger,
            "role": decision.role,
            "index": decision.index,
            "reason": exit_.sentence,
            "exit": exit_.to_json(),
        }
        rows.append((writing.now, exit_.code, told, decision.grace, job.id, job.attempt_number))
        if plan.evicted is not None:
            writing.events += evicted_events(plan, plan.evicted, writing.now)
            continue
        data = {"code": exit_.code, "trigger": decision.trigger}
        writing.events.append(job_event(plan, writing.now, "attempt.decided", None, exit_.sentence, **data))
    for guests in chunks([plan.job.id for plan in plans if plan.evicted and plan.evicted.was_guest]):
        Job.objects.filter(id__in=guests).update(guest_evictions=F("guest_evictions") + 1)
    borrowers: dict[int, list[int]] = {}  # by the job for which they are evicted
    for plan in plans:
        if plan.evicted and plan.evicted.owner and not plan.evicted.was_guest:
            borrowers.setdefault(plan.evicted.owner, []).append(plan.job.id)
    for owner, victims in borrowers.items():
        for some in chunks(victims):
            Job.objects.filter(id__in=some).update(evictions=F("evictions") + 1)
            remembered.note_displaced(owner, some, writing.now)
    _update_all(Attempt, ["decided_at", "exit_code", "exit", "grace"], ["job", "number"], rows)


def _end(plans: Sequence[JobPlan], writing: ToWrite) -> None:
    if not plans:
        return
    now, attempts, rows = writing.now, _attempts(plans), list[Row]()
    for plan in plans:
        if plan.retry:
            told = attempts[plan.job.id].exit
            told["next"] = plan.retry.reason
            told["exit"]["remedy"] = exits.without_retry(told["exit"]["remedy"])
        _make_due(plan, attempts[plan.job.id], writing)
    ended = [(now, attempt.exit, attempt.diagnosis_due, attempt.pk) for attempt in attempts.values()]
    update_rows(Attempt, ["completed_at", "exit", "diagnosis_due"], ["id"], ended)
    seen = [attempts[plan.job.id].pk for plan in plans if not plan.job.deleted]  # the tasks of others are purged
    for some in chunks(seen):
        Task.objects.filter(attempt__in=some, state=TaskState.WAITING).update(
            state=move_task(TaskState.WAITING, TaskState.STOPPED), changed_at=now, finished_at=now, collected=True
        )
    for plan in plans:
        assert plan.after is not None
        job, attempt, after = plan.job, attempts[plan.job.id], plan.after
        values = (move_job(job.state, after), now, attempt.exit_code, now, None)
        rows.append((*values, job.id, job.state, job.attempt_number))
        reason = attempt.exit.get("reason", "")
        writing.events.append(job_event(plan, now, "job.ended", after, reason, code=attempt.exit_code))
        log.info("job ended", job=job.title, state=str(after), code=attempt.exit_code)
    changed = ["state", "changed_at", "exit_code", "completed_at", "not_before"]
    _update_all(Job, changed, ["id", "state", "attempt_number"], rows)
    told = dependencies.note_ends([(plan.job.id, str(plan.after)) for plan in plans], now)
    writing.events += [NewEvent(now, "job.dependency", job, reason=says) for job, says in told]
    failed = [plan.job.id for plan in plans if plan.after == JobState.FAILED]
    asked = dependencies.stop_sweeps(failed, now)
    writing.events += [NewEvent(now, "job.stop_asked", job, reason=says) for job, says in asked]


def _retry(plan: JobPlan, writing: ToWrite) -> None:
    job, retry, now = plan.job, plan.retry, writing.now
    assert retry is not None
    attempt = _attempts([plan])[job.id]
    attempt.completed_at, attempt.exit["next"] = now, retry.reason
    _make_due(plan, attempt, writing)
    attempt.save(update_fields=["completed_at", "exit", "diagnosis_due"])
    warn = _warning(plan, now)
    counter = f"{retry.counter}_retries"
    _move_jobs(
        [plan],
        JobState.WAITING,
        now,
        queued_at=now,
        is_guest=False,
        not_before=now + timedelta(seconds=retry.delay) if retry.delay else None,
        attempt_number=job.attempt_number + 1,
        **{counter: getattr(job, counter) + 1},
    )
    open_attempt(Job.objects.get(id=job.id), job.attempt_number + 1, now)
    writing.events += [job_event(plan, now, "job.retry", JobState.WAITING, retry.reason), *warn]


def _make_due(plan: JobPlan, attempt: Attempt, writing: ToWrite) -> None:
    """An attempt that failed is to be diagnosed: by the worker that archives its last log, or by order where none is
    left to archive."""
    if attempt.exit_code in _NO_FAILURE:
        return
    attempt.diagnosis_due = writing.now
    if not any(_leaves_a_log(change) for change in plan.changes):
        writing.orders.append(Order(OrderKind.DIAGNOSE, container=attempt.app_id))


def _leaves_a_log(change: TaskChange) -> bool:
    is_lost = change.exit is not None and change.exit.code == exits.NODE_LOST
    return change.after in TASK_END_STATES and not change.collected and not is_lost


def _warning(plan: JobPlan, now: datetime) -> list[NewEvent]:
    """One Event, when the job has just failed so often in the same way that the next try may not help either."""
    tried = Attempt.objects.filter(job=plan.job.id, number__lte=plan.job.attempt_number).order_by("-number")
    ends = tried.values_list("number", "exit_code", "exit")[: MANY + 1]
    before = streak(ends, plan.job.spec.retry_count)
    if before is None or before.is_eviction or before.alike != MANY:
        return []
    return [job_event(plan, now, "job.failing", None, before.says)]


def _move_jobs(plans: Sequence[JobPlan], after: JobState, now: datetime, **values: Any) -> None:
    """Move jobs from one state to another, all with the same values. The number of the attempt is compared too, since a
    job's state comes back with another attempt."""
    (before,) = {plan.job.state for plan in plans}
    of_attempt: dict[int, list[int]] = {}
    for plan in plans:
        of_attempt.setdefault(plan.job.attempt_number, []).append(plan.job.id)
    for number, ids in of_attempt.items():
        for some in chunks(ids):
            jobs = with_ids(Job.objects.filter(state=before, attempt_number=number), some)
            if jobs.update(state=move_job(before, after), changed_at=now, **values) != len(some):
                raise Stale(f"a job is no longer {before} in attempt {number}")


# --- reads and helpers -----------------------------------------------------------------------------------------------


def _attempts(plans: Sequence[JobPlan]) -> dict[int, Attempt]:
    """The current attempt of each job, by job. Raises LookupError when one is missing."""
    numbers = {plan.job.id: plan.job.attempt_number for plan in plans}
    attempts: dict[int, Attempt] = {}
    for ids in chunks(list(numbers)):
        for attempt in with_ids(Attempt.objects.all(), ids, "job_id"):
            if attempt.number == numbers[attempt.job_id]:
                attempts[attempt.job_id] = attempt
    if missing := numbers.keys() - attempts.keys():
        raise LookupError(f"no attempt {numbers[min(missing)]} of job {min(missing)}")
    return attempts


class _WaitingTasks(NamedTuple):
    """An attempt, and its tasks that wait, by role and index."""

    id: int
    app_id: str
    created_at: datetime
    tasks: dict[tuple[str, int], int]


def _waiting_tasks(plans: Sequence[JobPlan]) -> dict[int, _WaitingTasks]:
    """Those of the current attempts, by job."""
    numbers = {plan.job.id: plan.job.attempt_number for plan in plans}
    found: dict[int, _WaitingTasks] = {}
    for some in chunks(list(numbers)):
        for job, number, attempt, app_id, created_at, role, index, id in values_with_ids(_rows_waiting, some, "job_id"):
            if number == numbers[job]:
                found.setdefault(job, _WaitingTasks(attempt, app_id, created_at, {})).tasks[role, index] = id
    return found


def _rows_waiting() -> QuerySet[Any, Any]:
    attempt = ("attempt__number", "attempt_id", "attempt__app_id", "attempt__created_at")
    return Task.objects.filter(state=TaskState.WAITING).values_list("job_id", *attempt, "role", "index", "id")


def _nodes(names: set[str]) -> dict[str, tuple[int, dict[str, str]]]:
    """Return {name: (id, {GPU: type})}"""
    nodes: dict[str, tuple[int, dict[str, str]]] = {}
    for some in chunks(sorted(names)):
        for name, id, gpus in Node.objects.filter(name__in=some).values_list("name", "id", "gpus"):
            nodes[name] = id, holdings.types_of(gpus)
    return nodes


def _update_all(
    model: type[Attempt | Job | Task], change: Sequence[str], where: Sequence[str], rows: list[Row]
) -> None:
    if update_rows(model, change, where, rows) != len(rows):
        raise Stale(f"a {model.__name__.lower()} is in another state")
