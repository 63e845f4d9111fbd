"""A server that did not answer is left alone, then asked by one."""

from __future__ import annotations

import pytest

from base.files.store.remote import Breaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(2.0, patience=20.0, clock=clock)


def test_it_admits_everyone_while_all_is_well(breaker: Breaker) -> None:
    assert [breaker.refusal() for _ in range(3)] == ["", "", ""]


def test_it_tells_the_reason_while_the_server_rests(breaker: Breaker, clock: Clock) -> None:
    breaker.silent("down")
    clock.now += 1.9
    assert breaker.refusal() == "down"


def test_after_the_rest_one_asks_and_the_others_wait_for_what_it_finds(breaker: Breaker, clock: Clock) -> None:
    breaker.silent("down")
    clock.now += 2
    assert [breaker.refusal(), breaker.refusal()] == ["", "down"]
    breaker.answered()
    assert breaker.refusal() == ""


def test_who_asks_and_finds_nothing_starts_another_rest(breaker: Breaker, clock: Clock) -> None:
    breaker.silent("down")
    clock.now += 2
    breaker.refusal()
    breaker.silent("still down")
    clock.now += 1
    assert breaker.refusal() == "still down"


def test_who_asks_and_never_comes_back_is_followed_by_another(breaker: Breaker, clock: Clock) -> None:
    breaker.silent("down")
    clock.now += 2
    breaker.refusal()
    clock.now += 20
    assert breaker.refusal() == ""
