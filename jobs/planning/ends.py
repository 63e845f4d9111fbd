"""How containers are told to end, and until when they must have ended. Pure.

It is the same whatever ends them: an eviction, a drained node, somebody's stop, the end of ``maxRunSeconds``. First
comes the notice, a file and a signal; then, where that signal was another one, TERM; then KILL. ``grace_of`` decides
how long that takes when the end is decided, and the attempt's row keeps it. Which step is due follows from that row and
from what workers have noted on the task's, so nothing is lost with the process that was at it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from jobs.config.extras import Extras
from jobs.planning.exits import JOB_STOPPED, OUT_OF_TIME, PREEMPTED

STOP_GRACE = 10  # seconds between notice and KILL of a job that does not say how many it needs
LOOK_EVERY = timedelta(seconds=5)  # so often a longer grace is looked at: a task that has saved needs no more of it
TERM = "SIGTERM"


class Step(StrEnum):
    """What a worker who is ordered to stop a container does now."""

    NOTICE = "notice"  # write the file and send the first signal
    LOOK = "look"  # whether it has saved since
    TERM = "term"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Ending:
    """The steps of an end, in seconds from the notice on."""

    kill: int = STOP_GRACE
    signal: str = TERM  # that comes with the notice
    term: int = 0

    def next_step(
        self, told: str, told_at: datetime | None, ordered_at: datetime | None, now: datetime
    ) -> tuple[Step, datetime | None]:
        """The step that is due, or the next one, and when: None for at once. ``told`` is the last signal that was sent,
        ``told_at`` when the first one was; ``ordered_at`` is when a worker was last ordered to do something."""
        if told_at is None:
            return Step.NOTICE, None
        steps = [(told_at + timedelta(seconds=self.kill), Step.KILL)]
        if told != TERM:
            steps.append((told_at + timedelta(seconds=self.term), Step.TERM))
        if self.kill > STOP_GRACE and ordered_at is not None:
            steps.append((ordered_at + LOOK_EVERY, Step.LOOK))
        at, step = next((each for each in steps if each[0] <= now), None) or min(steps)
        return step, at


def grace_of(code: int, asked: Extras, most: int, for_evicted: int) -> int:
    """The seconds between notice and KILL when an attempt ends with ``code``: those that its config asks for, as far as
    its virtual cluster allows them (``most``), or else the usual ones; ``for_evicted`` are those after an eviction."""
    if asked.grace is not None:
        return min(asked.grace, most)
    return for_evicted if code == PREEMPTED else STOP_GRACE


def ending_of(asked: Extras, grace: int) -> Ending:
    """The steps of an end that takes ``grace`` seconds. Without a word of it TERM leaves a task as long as any other
    end does."""
    if asked.notice is None or asked.notice.signal == TERM:
        return Ending(grace)
    before = asked.notice.seconds if asked.notice.seconds is not None else max(0, grace - STOP_GRACE)
    return Ending(grace, asked.notice.signal, min(before, grace))


_WORDS = {PREEMPTED: "evicted", JOB_STOPPED: "stopped", OUT_OF_TIME: "time"}


USUAL = Ending()


def word_for(code: int | None) -> str:
    """Why an attempt ended, in a word for programs; empty where it has not."""
    return "" if code is None else _WORDS.get(code, "failed" if code else "succeeded")


def notice_of(ending: Ending, code: int | None, reason: str) -> str:
    """What the file says of an end: JSON with one member a line, so that a shell reads it by `sed` alone."""
    told = {
        "why": word_for(code),
        "reason": reason,
        "signal": ending.signal,
        "termSeconds": 0 if ending.signal == TERM else ending.term,
        "killSeconds": ending.kill,
    }
    return json.dumps(told, indent=0) + "\n"
