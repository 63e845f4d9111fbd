"""No thread of ours dies of an exception, and one that is stuck is replaced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pytest
from django.db import OperationalError

from base.core import threads
from base.core.threads import KeptThread
from tests.helpers import LIMIT, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("error", [RuntimeError, OperationalError, MemoryError, SystemExit, KeyboardInterrupt])
def test_a_step_that_raises_is_repeated(error: type[BaseException]) -> None:
    steps, calm = count(), threading.Event()

    def step() -> None:
        if next(steps) < 3:
            raise error
        calm.set()
        thread.stop()

    thread = KeptThread("it", step, longest=60)
    thread.ensure_running()
    assert calm.wait(LIMIT)


def test_one_that_keeps_failing_is_late() -> None:
    begin = threading.Event()

    def step() -> None:
        begin.wait()
        raise RuntimeError("again")

    thread = KeptThread("it", step, longest=LIMIT)
    thread.ensure_running()
    assert not thread.is_late()
    begin.set()
    until(thread.is_late, 30, what="three failures in a row")
    thread.stop()


def test_a_stuck_one_is_replaced_and_ends_when_it_comes_back(stuck: threading.Event) -> None:
    seen: list[threading.Thread] = []

    def step() -> None:
        seen.append(threading.current_thread())
        if len(seen) == 1:
            stuck.wait()
        else:
            thread._stopped.wait(0.01)

    thread = KeptThread("it", step, longest=0.05)
    thread.ensure_running()
    until(lambda: seen and thread.age() > 0.05, 30)
    assert thread.is_late()
    thread.ensure_running()
    until(lambda: len(seen) > 3, 30, what="the new one works")
    stuck.set()
    seen[0].join(LIMIT)
    assert not seen[0].is_alive()
    thread.stop()


def test_threads_that_stay_stuck_do_not_pile_up(stuck: threading.Event) -> None:
    thread = KeptThread("piles up", lambda: bool(stuck.wait()) and None, longest=0.0)
    for _ in range(20):
        thread.ensure_running()
    assert sum(one.name == "piles up" for one in threading.enumerate()) <= 5
    thread.stop()


def test_keep_leaves_a_working_one_alone(stuck: threading.Event) -> None:
    started: list[int] = []
    thread = KeptThread("it", lambda: started.append(1) or (bool(stuck.wait()) and None), longest=LIMIT)  # type: ignore[func-returns-value]
    for _ in range(5):
        thread.ensure_running()
    until(lambda: started, 30)
    assert started == [1]
    thread.stop()
