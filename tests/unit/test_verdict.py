"""When an attempt is over, and how."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.config.spec import JobSpec
from jobs.planning import exits
from jobs.planning.lifecycle import TaskState
from jobs.planning.verdict import JudgedTask, judge

START = datetime(2026, 11, 20, tzinfo=UTC)
LETTERS = {"s": TaskState.SUCCEEDED, "f": TaskState.FAILED, "r": TaskState.RUNNING, "w": TaskState.STARTING}


def spec(*roles: dict[str, Any], **values: Any) -> JobSpec:
    listed = [{"name": f"r{at}", "command": "x", **role} for at, role in enumerate(roles)]
    return JobSpec.from_json({"jobName": "j", "image": "i", "taskRoles": listed, **values})


def tasks(*roles: str) -> list[JudgedTask]:
    """``"sfr"``: role 0 has one task that succeeded, one that failed, one that runs; they ended in this order."""
    found = []
    for role, letters in enumerate(roles):
        for index, letter in enumerate(letters):
            exit_ = exits.exit_for(exits.USER_FAILED, f"r{role}-{index} failed") if letter == "f" else None
            found.append(JudgedTask(f"r{role}", index, LETTERS[letter], exit_, START + timedelta(seconds=index)))
    return found


CASES: list[tuple[JobSpec, tuple[str, ...], tuple[int, str] | None]] = [
    (spec({}), ("r",), None),
    (spec({}), ("s",), (0, "All Tasks completed")),
    (spec({"taskNumber": 2}), ("sr",), None),
    (spec({"taskNumber": 2}), ("fr",), (255, "[r0]: FailedTaskCount 1 has reached MinFailedTaskCount 1.")),
    (spec({"taskNumber": 3, "minFailedTaskCount": 2}), ("frr",), None),
    (spec({"taskNumber": 3, "minFailedTaskCount": 2}), ("ffr",), (255, "FailedTaskCount 2 has reached")),
    (spec({"taskNumber": 2, "minFailedTaskCount": None}), ("ff",), (0, "TotalTaskCount: 2, FailedTaskCount: 2.")),
    (spec({}, {"minSucceededTaskCount": 1}), ("r", "s"), (0, "[r1]: SucceededTaskCount 1 has reached")),
    (spec({}, {"taskNumber": 2, "minSucceededTaskCount": 2}), ("r", "sr"), None),
    (spec({}, {"minSucceededTaskCount": 1}), ("f", "s"), (255, "[r0]: FailedTaskCount 1")),
    (spec({}, {}, killAllOnCompletedTaskNumber=1), ("r", "s"), (0, "killAllOnCompletedTaskNumber 1")),
    (spec({}, {}, killAllOnCompletedTaskNumber=2), ("r", "s"), None),
    (spec({}, {}, killAllOnCompletedTaskNumber=2), ("f", "s"), (255, "FailedTaskCount 1")),
    (spec({}, {"minSucceededTaskCount": 2, "taskNumber": 2}, killAllOnCompletedTaskNumber=1), ("r", "sr"), None),
    (spec({}, {}), ("w", "r"), None),
]


@pytest.mark.parametrize(("job", "states", "expected"), CASES)
def test_it_judges(job: JobSpec, states: tuple[str, ...], expected: tuple[int, str] | None) -> None:
    decision = judge(job, tasks(*states))
    if expected is None:
        assert decision is None
    else:
        assert decision is not None
        assert decision.exit.code == expected[0]
        assert expected[1] in decision.trigger


@pytest.mark.parametrize("there", [(), ("s",), ("sss",)])
def test_of_tasks_that_were_not_all_read_nothing_is_said(there: tuple[str, ...]) -> None:
    with pytest.raises(LookupError):
        judge(spec({"taskNumber": 2}), tasks(*there))


def test_the_exit_is_that_of_the_task_that_crossed_the_limit() -> None:
    decision = judge(spec({"taskNumber": 3, "minFailedTaskCount": 2}), tasks("fff"))
    assert decision is not None
    assert (decision.role, decision.index, decision.exit.sentence) == ("r0", 1, "r0-1 failed")
