"""The grace of an end, its steps, and the file that says so."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.config.extras import extras_of
from jobs.planning import exits
from jobs.planning.ends import LOOK_EVERY, Ending, Step, ending_of, grace_of, notice_of, word_for

TOLD = datetime(2026, 11, 27, tzinfo=UTC)
USR1 = {"signal": "SIGUSR1"}


def at(seconds: float) -> datetime:
    return TOLD + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("extras", "code", "most", "seconds"),
    [
        ({}, exits.JOB_STOPPED, 600, 10),
        ({}, exits.OUT_OF_TIME, 600, 10),
        ({}, exits.PREEMPTED, 5, 45),  # what an admin set for all is no wish of the job
        ({"graceSeconds": 120}, exits.JOB_STOPPED, 600, 120),
        ({"graceSeconds": 120}, exits.PREEMPTED, 600, 120),
        ({"graceSeconds": 120}, exits.PREEMPTED, 60, 60),
        ({"graceSeconds": 0}, exits.PREEMPTED, 600, 0),
        ({"notice": USR1}, exits.JOB_STOPPED, 600, 30),
        ({"notice": USR1}, exits.JOB_STOPPED, 20, 20),
        ({"graceSeconds": "much"}, exits.JOB_STOPPED, 600, 10),  # free storage, in a config of an older release
    ],
)
def test_the_grace_is_what_was_asked_as_far_as_it_is_allowed(
    extras: dict[str, Any], code: int, most: int, seconds: int
) -> None:
    assert grace_of(code, extras_of(extras), most, 45) == seconds


@pytest.mark.parametrize(
    ("extras", "grace", "ending"),
    [
        ({}, 10, Ending(10, "SIGTERM", 0)),
        ({"notice": {"signal": "SIGTERM", "seconds": 5}}, 30, Ending(30, "SIGTERM", 0)),
        ({"notice": {**USR1, "seconds": 5}}, 30, Ending(30, "SIGUSR1", 5)),
        ({"notice": USR1}, 30, Ending(30, "SIGUSR1", 20)),
        ({"notice": USR1}, 4, Ending(4, "SIGUSR1", 0)),
        ({"notice": {**USR1, "seconds": 25}}, 20, Ending(20, "SIGUSR1", 20)),  # an admin allows less by now
    ],
)
def test_a_notice_comes_before_term(extras: dict[str, Any], grace: int, ending: Ending) -> None:
    assert ending_of(extras_of(extras), grace) == ending


@pytest.mark.parametrize(
    ("told", "now", "ordered", "step", "when"),
    [
        ("SIGUSR1", 1, 0, Step.LOOK, 5),
        ("SIGUSR1", 18, 17, Step.TERM, 20),
        ("SIGUSR1", 21, 17, Step.TERM, 20),
        ("SIGTERM", 21, 20, Step.LOOK, 25),
        ("SIGTERM", 29, 28, Step.KILL, 30),
        ("SIGTERM", 90, 20, Step.KILL, 30),
        ("SIGUSR1", 90, 0, Step.KILL, 30),  # nobody was there to send TERM: it comes with KILL
    ],
)
def test_the_step_follows_from_what_was_told_and_when(
    told: str, now: float, ordered: float, step: Step, when: float
) -> None:
    ending = Ending(30, "SIGUSR1", 20)
    assert ending.next_step(told, TOLD, at(ordered), at(now)) == (step, at(when))
    assert timedelta(seconds=5) == LOOK_EVERY


def test_who_was_not_told_is_told_first_however_late_it_is() -> None:
    assert Ending(0).next_step("", None, None, at(1000)) == (Step.NOTICE, None)


@pytest.mark.parametrize(
    ("code", "word"),
    [(None, ""), (0, "succeeded"), (255, "failed"), (-7111, "failed"), (-7120, "evicted"), (-7351, "stopped")],
)
def test_an_end_has_a_word_for_programs(code: int | None, word: str) -> None:
    assert word_for(code) == word


def test_a_shell_reads_the_notice_by_sed(tmp_path: Path) -> None:
    reason = 'Node "n1" is\nbeing drained: it\'s $HOME.'
    note = notice_of(Ending(180, "SIGUSR1", 150), exits.PREEMPTED, reason)
    assert json.loads(note) == {
        **{"why": "evicted", "reason": reason, "signal": "SIGUSR1"},
        **{"termSeconds": 150, "killSeconds": 180},
    }
    file = tmp_path / "told"
    file.write_text(note)
    script = """sed -n 's/^"killSeconds": \\([0-9]*\\).*/\\1/p; s/^"why": "\\(.*\\)",$/\\1/p' "$0" """
    said = subprocess.run(["sh", "-c", script, str(file)], check=True, capture_output=True, text=True).stdout
    assert said == "evicted\n180\n"
