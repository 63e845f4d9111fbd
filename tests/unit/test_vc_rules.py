"""What virtual clusters may be called and given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.vcs import rules


@pytest.mark.parametrize(
    ("name", "is_one"), [("vc_1", True), ("a" * 64, True), ("", False), ("a" * 65, False), ("a-b", False)]
)
def test_a_name_has_letters_digits_and_underscores(name: str, is_one: bool) -> None:
    assert rules.is_name(name) is is_one


def test_default_is_changed_by_nobody() -> None:
    assert not rules.is_changeable(rules.DEFAULT_VC)
    assert rules.is_changeable("vc1")


def test_default_has_what_the_others_leave() -> None:
    capacities = {"default": 99.0, "a": 33.3, "b": 33.3}
    assert rules.rest_of([33.3, 33.3]) == 33.4
    assert rules.room_for("a", capacities) == 66.7
    assert rules.rest_after("a", 60, capacities) == 6.7
    assert rules.rest_after("new", 10, capacities) == 23.4


def test_what_is_left_to_the_last_digit_may_be_given() -> None:
    """33.4 is more than 100 - 33.3 - 33.3 as floats are added."""
    room = rules.room_for("c", {"a": 33.3, "b": 33.3})
    assert rules.fits(33.4, room) and not rules.fits(33.4001, room)
    assert rules.fits(0.3, 0.1 + 0.2) and rules.fits(0.1 + 0.2, 0.3)


@pytest.mark.parametrize(
    ("capacity", "most", "field"),
    [
        (10, 20, None),
        (0, 0, None),
        (100, 100, None),
        (-1, 5, "capacity"),
        (101, 101, "capacity"),
        (20, 10, "max_capacity"),
        (20, 101, "max_capacity"),
    ],
)
def test_a_percentage_out_of_range_is_named(capacity: float, most: float, field: str | None) -> None:
    mistake = rules.find_mistake(capacity, most)
    assert (mistake and mistake.field) == field


@given(st.integers(0, 10_000), st.floats(0, 100))
def test_a_part_is_never_more_than_the_whole(whole: int, percent: float) -> None:
    assert 0 <= rules.part_of(whole, percent) <= whole


def test_a_part_that_is_whole_but_for_rounding_is_whole() -> None:
    assert rules.part_of(8, 12.5) == 1
    assert rules.part_of(3, 33.3333) == 1
    assert rules.part_of(3, 33) == 0
    assert rules.part_of(10, 70) == 7
