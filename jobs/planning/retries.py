"""Decides whether a job is tried again after an attempt, when, and which of its counters that adds to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from base.core import words
from jobs.planning.exit_table import Reaction
from jobs.planning.exits import JOB_STOPPED, PREEMPTED, SUCCEEDED, TASK_STOPPED, Exit
from jobs.planning.streak import LONGEST, LONGEST_FOR_EVER, MANY, MOST

Counter = Literal["user", "platform", "resource"]


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether the job gets another attempt. ``delay`` is in seconds from the end of this one, ``counter`` the one to
    add to, ``reason`` a sentence for the ledger and the page."""

    retry: bool
    counter: Counter | None
    delay: float
    reason: str


def decide_retry(
    exit: Exit,
    *,
    retry_count: int,
    user_retries: int,
    platform_retries: int,
    resource_retries: int,
    alike: int = 1,
    random_unit: float,
) -> RetryDecision:
    """The v1 contract, 4.3, but that no retry goes on without end unless the config asks for it. ``retry_count`` is the
    job's (-2 for ever, also after success; -1 for ever after its own failures); the three others count retries made so
    far; ``alike`` is how many attempts in a row ended in this way; ``random_unit`` in [0, 1) spreads the delays."""
    done = {"user": user_retries, "platform": platform_retries, "resource": resource_retries}
    counter = _counter(exit, retry_count)
    if counter is None:
        return RetryDecision(False, None, 0.0, _why_not(exit))
    if counter == "user" and retry_count >= 0 and user_retries >= retry_count:
        return RetryDecision(False, None, 0.0, _used_up(retry_count))
    is_slow = alike >= MANY and exit.code != PREEMPTED and (counter != "user" or retry_count < 0)
    if is_slow and alike >= MOST and retry_count >= 0:
        return RetryDecision(False, None, 0.0, f"Not tried again: the last {MOST} attempts ended in the same way.")
    delay = 0.0 if exit.code == PREEMPTED else _delay(counter, done[counter], random_unit)
    delay = round(max(delay, _slowly(alike, retry_count, random_unit)) if is_slow else delay, 1)
    when = f"in {delay:.0f} s" if delay >= 1 else "now"
    if is_slow:
        when = f"in {words.duration(int(delay))}, as the last {alike} attempts or more ended in the same way"
    if counter == "platform":
        reason = f"Tried again {when}. This does not use up a retry."
    elif counter == "resource":
        reason = f"Tried again {when}, when there may be room. This does not use up a retry."
    elif retry_count < 0:
        reason = f"Tried again {when}, as often as it takes (retryCount {retry_count})."
    else:
        reason = f"Retry {user_retries + 1} of {retry_count} {when}."
    return RetryDecision(True, counter, delay, reason)


def _counter(exit: Exit, retry_count: int) -> Counter | None:
    """The counter that a retry adds to; None when no retry may follow."""
    reaction = exit.spec.reaction
    if exit.permanent or exit.code in (JOB_STOPPED, TASK_STOPPED):
        return None
    if reaction is Reaction.ALWAYS_RETRY:
        return "platform"
    if reaction is Reaction.ALWAYS_BACKOFF_RETRY:
        return "resource"
    if reaction is Reaction.RETRY_TO_MAX or retry_count == -2:
        return "user"
    return None


_FIRST_AND_LONGEST = {"user": (1.0, 30.0), "platform": (1.0, 60.0), "resource": (10.0, 600.0)}
LONGEST_DELAY = timedelta(seconds=LONGEST)


def _slowly(alike: int, retry_count: int, random_unit: float) -> float:
    """Seconds before another try of what failed so often in one way: so growing that ten tries outlast two hours in
    which a registry is away."""
    longest = LONGEST if retry_count >= 0 else LONGEST_FOR_EVER
    return min(longest, 60.0 * 2.0 ** (alike - MANY) * (0.75 + random_unit / 2))


def _delay(counter: Counter, done: int, random_unit: float) -> float:
    """Seconds, doubling with each retry, spread by a quarter to each side, and never over the longest. The first retry
    of user and platform is at once: most faults do not come twice."""
    first, longest = _FIRST_AND_LONGEST[counter]
    if counter != "resource":
        if done == 0:
            return 0.0
        done -= 1
    grown: float = first * 2 ** min(done, 16)
    return min(longest, grown * (0.75 + random_unit / 2))


def _why_not(exit: Exit) -> str:
    if exit.code == SUCCEEDED:
        return "It succeeded."
    if exit.code in (JOB_STOPPED, TASK_STOPPED):
        return "It was stopped."
    if exit.certainty == "unknown":
        return f"Not tried again: an end with code {exit.code} is not."
    return f"Not tried again: it would {'' if exit.certainty == 'certain' else 'most likely '}end the same way."


def _used_up(retry_count: int) -> str:
    if retry_count == 0:
        return "Not tried again: retryCount is 0."
    return f"Not tried again: {'its only retry is' if retry_count == 1 else f'all {retry_count} retries are'} used up."
