"""The tables: every legal move, every illegal one, and the v1 words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobs.planning.lifecycle import (
    JOB_END_STATES,
    JOB_MOVES,
    TASK_END_STATES,
    TASK_LIVE_STATES,
    TASK_MOVES,
    IllegalMove,
    JobState,
    TaskState,
    move_job,
    move_task,
    v1_sub_state,
    v1_task_state,
)

LEGAL_TASK = {
    ("WAITING", "STARTING"), ("WAITING", "STOPPED"),
    ("STARTING", "RUNNING"), ("STARTING", "SUCCEEDED"), ("STARTING", "FAILED"), ("STARTING", "STOPPING"),
    ("RUNNING", "SUCCEEDED"), ("RUNNING", "FAILED"), ("RUNNING", "STOPPING"),
    ("STOPPING", "STOPPED"), ("STOPPING", "SUCCEEDED"), ("STOPPING", "FAILED"),
}  # fmt: skip
LEGAL_JOB = {
    ("WAITING", "RUNNING"), ("WAITING", "SUCCEEDED"), ("WAITING", "FAILED"), ("WAITING", "STOPPED"),
    ("RUNNING", "SUCCEEDED"), ("RUNNING", "FAILED"), ("RUNNING", "STOPPED"), ("RUNNING", "WAITING"),
}  # fmt: skip


def moves(move: Callable[[Any, Any], Any], states: type[StrEnum]) -> dict[tuple[str, str], bool]:
    """Every move that is not refused, and whether it leads where it was to."""
    made = {}
    for before, after in itertools.product(states, states):
        with suppress(IllegalMove):
            made[str(before), str(after)] = move(before, after) is after
    return made


def test_a_task_moves_only_through_the_table() -> None:
    assert moves(move_task, TaskState) == dict.fromkeys(LEGAL_TASK, True)


def test_a_job_moves_only_through_the_table() -> None:
    assert moves(move_job, JobState) == dict.fromkeys(LEGAL_JOB, True)


@given(st.lists(st.sampled_from(sorted(TaskState)), max_size=12))
def test_no_walk_of_a_task_visits_a_state_twice(wishes: list[TaskState]) -> None:
    """Compare-and-set on the state alone is enough, since a state never comes back."""
    at, visited = TaskState.WAITING, [TaskState.WAITING]
    for wish in wishes:
        try:
            at = move_task(at, wish)
        except IllegalMove:
            continue
        visited.append(at)
    assert len(set(visited)) == len(visited)


def test_every_state_is_in_the_tables_and_ends_are_final() -> None:
    assert set(TASK_MOVES) == set(TaskState)
    assert set(JOB_MOVES) == set(JobState)
    assert all(not TASK_MOVES[state] for state in TASK_END_STATES)
    assert all(not JOB_MOVES[state] for state in JOB_END_STATES)
    assert set(TaskState) == TASK_END_STATES | TASK_LIVE_STATES | {TaskState.WAITING}


def test_v1_words_of_a_job() -> None:
    assert {str(state): v1_sub_state(state) for state in JobState} == {
        "WAITING": "FRAMEWORK_WAITING",
        "RUNNING": "APPLICATION_RUNNING",
        "SUCCEEDED": "FRAMEWORK_COMPLETED",
        "FAILED": "FRAMEWORK_COMPLETED",
        "STOPPED": "FRAMEWORK_COMPLETED",
    }


def test_v1_words_of_a_task() -> None:
    assert {str(state): v1_task_state(state) for state in TaskState} == {
        "WAITING": "WAITING",
        "STARTING": "WAITING",
        "RUNNING": "RUNNING",
        "STOPPING": "RUNNING",
        "SUCCEEDED": "SUCCEEDED",
        "FAILED": "FAILED",
        "STOPPED": "STOPPED",
    }
