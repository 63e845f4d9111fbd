"""States of jobs and tasks, and the only table by which they change. Pure.

Nothing else in the project decides that a state may follow another: ``apply`` (jobs/scheduling/apply.py) asks
``move_job`` and ``move_task`` before it writes, and a move that is not in the table raises. Lost, out of memory, pull
failed are exits (jobs/planning/exits.py), not states.
"""

from __future__ import annotations

from enum import StrEnum


class IllegalMove(Exception):
    """A state cannot follow this one. That is a defect of the planner, never the fault of a user."""


class TaskState(StrEnum):
    WAITING = "WAITING"  # no allocation, no container. -> STARTING when its gang is placed, STOPPED when its job ends
    STARTING = "STARTING"  # allocation held; a container may exist or not. -> RUNNING, an end, or STOPPING
    RUNNING = "RUNNING"  # allocation held; its container was seen running. -> an end, or STOPPING
    STOPPING = "STOPPING"  # allocation held; its container must go. -> an end, once it is seen gone or exited
    SUCCEEDED = "SUCCEEDED"  # exited 0. No allocation
    FAILED = "FAILED"  # exited otherwise, refused or lost. No allocation
    STOPPED = "STOPPED"  # ended because its job ended. No allocation


class JobState(StrEnum):
    WAITING = "WAITING"  # no task is placed: in the queue, or waiting out a retry delay
    RUNNING = "RUNNING"  # every task of the current attempt is placed or was
    SUCCEEDED = "SUCCEEDED"  # the completion policy was met and nothing of it runs
    FAILED = "FAILED"
    STOPPED = "STOPPED"  # its owner or an admin stopped it and nothing of it runs


T, J = TaskState, JobState
TASK_END_STATES = frozenset({T.SUCCEEDED, T.FAILED, T.STOPPED})
TASK_LIVE_STATES = frozenset({T.STARTING, T.RUNNING, T.STOPPING})  # these hold an allocation
JOB_END_STATES = frozenset({J.SUCCEEDED, J.FAILED, J.STOPPED})

TASK_MOVES: dict[TaskState, frozenset[TaskState]] = {
    T.WAITING: frozenset({T.STARTING, T.STOPPED}),
    T.STARTING: frozenset({T.RUNNING, T.SUCCEEDED, T.FAILED, T.STOPPING}),
    T.RUNNING: frozenset({T.SUCCEEDED, T.FAILED, T.STOPPING}),
    T.STOPPING: frozenset({T.STOPPED, T.SUCCEEDED, T.FAILED}),
    T.SUCCEEDED: frozenset(),
    T.FAILED: frozenset(),
    T.STOPPED: frozenset(),
}
JOB_MOVES: dict[JobState, frozenset[JobState]] = {
    J.WAITING: frozenset({J.RUNNING, J.SUCCEEDED, J.FAILED, J.STOPPED}),
    J.RUNNING: frozenset({J.SUCCEEDED, J.FAILED, J.STOPPED, J.WAITING}),
    J.SUCCEEDED: frozenset(),
    J.FAILED: frozenset(),
    J.STOPPED: frozenset(),
}


def move_task(before: TaskState, after: TaskState) -> TaskState:
    """``after``, if a task may go there from ``before``. Raises IllegalMove."""
    if after not in TASK_MOVES[before]:
        raise IllegalMove(f"a task cannot go from {before} to {after}")
    return after


def move_job(before: JobState, after: JobState) -> JobState:
    """``after``, if a job may go there from ``before``. Raises IllegalMove."""
    if after not in JOB_MOVES[before]:
        raise IllegalMove(f"a job cannot go from {before} to {after}")
    return after


# The words of the v1 API (v1 contract, 4.1). ``decided``: the attempt's outcome is known, its containers are ending.
_SUB_STATES = {
    J.WAITING: "FRAMEWORK_WAITING",
    J.RUNNING: "APPLICATION_RUNNING",
    J.SUCCEEDED: "FRAMEWORK_COMPLETED",
    J.FAILED: "FRAMEWORK_COMPLETED",
    J.STOPPED: "FRAMEWORK_COMPLETED",
}
_TASK_WORDS = {T.STARTING: "WAITING", T.STOPPING: "RUNNING"}


def v1_sub_state(state: JobState) -> str:
    return _SUB_STATES[state]


def v1_task_state(state: TaskState) -> str:
    return _TASK_WORDS.get(state, str(state))
