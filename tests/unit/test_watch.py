"""Who wants to know whether something answers does not wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event

import pytest

from base.files.store.state import SILENT, Liveness
from tests.helpers import until


@pytest.fixture
def answers() -> Iterator[Event]:
    """What is asked answers once this is set."""
    event = Event()
    yield event
    event.set()


def test_it_waits_for_the_first_answer_no_longer_than_asked(answers: Event) -> None:
    watch = Liveness(lambda: "" if answers.wait(30) else "never")
    began = time.monotonic()
    assert watch.told() is None
    assert watch.told(0.05) is None
    assert time.monotonic() - began < 5
    answers.set()
    assert watch.told(10) == ""


def test_it_asks_again_only_after_a_while() -> None:
    asked: list[int] = []
    watch = Liveness(lambda: str(asked.append(1) or len(asked)), every=60)  # type: ignore[func-returns-value]
    assert [watch.told(10) for _ in range(3)] == ["1", "1", "1"]
    eager = Liveness(lambda: str(asked.append(1) or len(asked)), every=0)  # type: ignore[func-returns-value]
    eager.told()
    until(lambda: eager.told() == "5", what="it was asked again")


def test_what_takes_long_counts_as_silent_until_it_answers(answers: Event) -> None:
    watch = Liveness(lambda: "" if answers.wait(30) else "never", slow=0.05)
    until(lambda: watch.told() == SILENT, what="it counts as silent")
    answers.set()
    until(lambda: watch.told() == "", what="it has answered")
