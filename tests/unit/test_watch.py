"""Who wants to know whether something answers does not wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from base.files.store.state import SILENT, Liveness
from tests.helpers import LIMIT, until


@pytest.fixture
def answers() -> Iterator[Event]:
    """What is asked answers once this is set."""
    event = Event()
    yield event
    event.set()


def test_it_waits_for_the_first_answer_no_longer_than_asked(answers: Event) -> None:
    watch = Liveness(lambda: "" if answers.wait(LIMIT) else "never", slow=LIMIT)
    assert watch.last_answer() is None
    assert watch.last_answer(0.05) is None
    answers.set()
    assert watch.last_answer(LIMIT) == ""


def test_it_asks_again_only_after_a_while() -> None:
    asked: list[int] = []
    watch = Liveness(lambda: str(asked.append(1) or len(asked)), every=3600)  # type: ignore[func-returns-value]
    assert [watch.last_answer(LIMIT) for _ in range(3)] == ["1", "1", "1"]
    eager = Liveness(lambda: str(asked.append(1) or len(asked)), every=0, slow=LIMIT)  # type: ignore[func-returns-value]
    until(lambda: int(eager.last_answer() or 0) >= 5, what="it was asked again")


def test_what_takes_long_counts_as_silent_until_it_answers(answers: Event) -> None:
    watch = Liveness(lambda: "" if answers.wait(LIMIT) else "never", slow=0.05)
    until(lambda: watch.last_answer() == SILENT, what="it counts as silent")
    answers.set()
    until(lambda: watch.last_answer() == "", what="it has answered")
