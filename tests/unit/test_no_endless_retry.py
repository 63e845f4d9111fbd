"""Whatever the kind of an end: three of the same in a row slow down and say so, ten end the job. A job that counts its
own retries ends when these are used up, and one whose config asks to be tried for ever slows down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusters.engines.runtime import FaultReason
from jobs.planning import exits
from jobs.planning.exit_table import TABLE, Reaction
from jobs.planning.exits import Exit
from jobs.planning.retries import RetryDecision, decide_retry
from jobs.planning.streak import LONGEST_FOR_EVER, MANY, MOST, streak

ENOUGH = 40  # attempts: more than any of these may have


def _ends() -> Iterator[tuple[str, Exit]]:
    for code in TABLE:
        yield f"code {code}", exits.exit_for(code)
    for reason in (*FaultReason, *exits.StartFault):
        for permanent in (False, True):
            yield f"{reason}{', for good' if permanent else ''}", exits.from_fault(reason, "It would not.", permanent)


ENDS = dict(_ends())
NO_FAILURES = (exits.SUCCEEDED, exits.PREEMPTED)
FAILURES = sorted(ENDS.keys() - {f"code {code}" for code in NO_FAILURES})


def _decisions(exit_: Exit, retry_count: int) -> list[RetryDecision]:
    """After each of its attempts, all of which end so."""
    made: list[RetryDecision] = []
    for attempt in range(1, ENOUGH + 1):
        done = dict.fromkeys(("user_retries", "platform_retries", "resource_retries"), attempt - 1)
        alike = min(attempt, MOST + 1)  # of more it is not looked back
        made.append(decide_retry(exit_, retry_count=retry_count, alike=alike, random_unit=0.5, **done))
        if not made[-1].retry:
            break
    return made


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("retry_count", [0, 3, 25])
def test_ten_of_the_same_in_a_row_end_it_and_three_slow_down(name: str, retry_count: int) -> None:
    exit_ = ENDS[name]
    made = _decisions(exit_, retry_count)
    assert not made[-1].retry, f"it was tried {ENOUGH} times"
    if exit_.spec.reaction is Reaction.NEVER_RETRY:
        assert len(made) == 1
    elif exit_.spec.reaction is Reaction.RETRY_TO_MAX:
        assert len(made) == retry_count + 1, "as often as its config says, and no other limit"
    else:
        assert len(made) == MOST and made[-1].reason == "Not tried again: the last 10 attempts ended in the same way."
        pauses = [decision.delay for decision in made[:-1]]
        assert max(pauses[: MANY - 1]) < 60 <= pauses[MANY - 1] and pauses == sorted(pauses)
        assert sum(pauses) > 7200, "what is away for an hour or two ends no job"
        assert all("ended in the same way" in decision.reason for decision in made[MANY - 1 :])


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("retry_count", [0, 25, -1, -2])
def test_from_three_on_its_page_says_how_it_goes_on(name: str, retry_count: int) -> None:
    exit_ = ENDS[name]
    if not decide_retry(
        exit_, retry_count=retry_count, user_retries=0, platform_retries=0, resource_retries=0, random_unit=0
    ).retry:
        return
    kept = {"exit": exit_.to_json()}
    before = streak([(number, exit_.code, kept) for number in (3, 2, 1)], retry_count)
    assert before and before.is_warned
    is_by_itself = exit_.spec.reaction in (Reaction.RETRY_TO_MAX, Reaction.NEVER_RETRY)
    expected = "as its retryCount asks" if retry_count < 0 else f"with the {MOST}th such failure"
    assert before.follows.endswith(
        f"{'until its retries are used up' if is_by_itself and retry_count > 0 else expected}."
    )


@pytest.mark.parametrize("name", FAILURES)
def test_who_asks_for_it_is_tried_for_ever_and_slowly(name: str) -> None:
    made = _decisions(ENDS[name], -2)
    assert len(made) == (ENOUGH if made[0].retry else 1)
    assert [decision.delay for decision in made[MANY + 4 :]] == [LONGEST_FOR_EVER] * len(made[MANY + 4 :])


def test_evictions_and_successes_are_no_failures_however_many() -> None:
    assert {decision.delay for decision in _decisions(exits.evicted("VC a gives back 1 GPU."), 0)} == {0.0}
    assert len(_decisions(exits.evicted("VC a gives back 1 GPU."), 0)) == ENOUGH
    assert streak([(1, exits.SUCCEEDED, {}), (2, exits.SUCCEEDED, {})], -2) is None
