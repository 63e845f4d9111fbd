"""Decides when an attempt is over, and how it ended (v1 contract, 4.4 and 4.5). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from jobs.config.spec import JobSpec
from jobs.planning import exits
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import TASK_END_STATES, TaskState
from jobs.planning.world import Decision

_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JudgedTask:
    """A task as the completion policy sees it."""

    role: str
    index: int
    state: TaskState
    exit: Exit | None
    finished_at: datetime | None


def judge(spec: JobSpec, tasks: Sequence[JudgedTask]) -> Decision | None:
    """The outcome of an attempt whose tasks are in these states, or None while it goes on. Raises LookupError unless
    ``tasks`` are all of them: without the others nobody knows how it ended."""
    if len(tasks) != spec.total_tasks:
        raise LookupError(f"{len(tasks)} of {spec.total_tasks} tasks are there")
    if not any(task.state in TASK_END_STATES for task in tasks):
        return None
    for role in spec.task_roles:
        failed = _of(tasks, role.name, TaskState.FAILED)
        if role.min_failed_task_count is not None and len(failed) >= role.min_failed_task_count:
            return _failed(failed[role.min_failed_task_count - 1], len(failed), role.min_failed_task_count)
    for role in spec.task_roles:
        succeeded = _of(tasks, role.name, TaskState.SUCCEEDED)
        if role.min_succeeded_task_count is not None and len(succeeded) >= role.min_succeeded_task_count:
            last, least = succeeded[role.min_succeeded_task_count - 1], role.min_succeeded_task_count
            text = f"[{role.name}]: SucceededTaskCount {len(succeeded)} has reached MinSucceededTaskCount {least}."
            return _succeeded(text, last)
    return _all_together(spec, tasks)


def _all_together(spec: JobSpec, tasks: Sequence[JudgedTask]) -> Decision | None:
    done = sorted((t for t in tasks if t.state is TaskState.SUCCEEDED), key=lambda t: t.finished_at or _FIRST)
    if 0 < spec.kill_all_after <= len(done):
        text = f"SucceededTaskCount {len(done)} has reached killAllOnCompletedTaskNumber {spec.kill_all_after}."
        return _succeeded(text, done[spec.kill_all_after - 1])
    if all(task.state in TASK_END_STATES for task in tasks):
        failed = sum(task.state is TaskState.FAILED for task in tasks)
        return _succeeded(
            "All Tasks completed and no ApplicationCompletionPolicy has ever been triggered: "
            f"TotalTaskCount: {len(tasks)}, FailedTaskCount: {failed}."
        )
    return None


def _of(tasks: Sequence[JudgedTask], role: str, state: TaskState) -> list[JudgedTask]:
    """The tasks of a role in this state, in the order in which they ended."""
    theirs = [task for task in tasks if task.role == role and task.state is state]
    return sorted(theirs, key=lambda task: (task.finished_at or _FIRST, task.index))


def _failed(task: JudgedTask, count: int, least: int) -> Decision:
    return Decision(
        exit=task.exit or exits.exit_for(exits.EXIT_CODE_LOST),
        trigger=f"[{task.role}]: FailedTaskCount {count} has reached MinFailedTaskCount {least}.",
        role=task.role,
        index=task.index,
    )


def _succeeded(trigger: str, task: JudgedTask | None = None) -> Decision:
    exit_ = replace(exits.exit_for(exits.SUCCEEDED, "The job's completion rule was met."), remedy="")
    return Decision(exit_, trigger, task.role if task else "", task.index if task else None)
