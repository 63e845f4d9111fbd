"""Forecasts are corrected by the errors of earlier ones: as many starts as it says fall into the range."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.forecast.errors import _LATER, ENOUGH, MOST, Corrections, Moments, PastForecast

MINUTE = 60_000
HOUR = 60 * MINUTE
NOW = 10**12
FORESEEN = (1, 2, 3)  # hours


def seen(hours: float | None, vc: str = "a", foreseen: Sequence[float] = FORESEEN, ago: float = 100) -> PastForecast:
    """A forecast that came true after so many hours; None: not yet."""
    made = NOW - round(ago * HOUR)
    return PastForecast(vc, made, moments(made, foreseen), None if hours is None else made + round(hours * HOUR))


def moments(made: int, foreseen: Sequence[float] = FORESEEN) -> Moments:
    p10, p50, p90 = (made + round(each * HOUR) for each in foreseen)
    return p10, p50, p90


def hours(known: Corrections, foreseen: Sequence[float] = FORESEEN, vc: str = "a") -> list[float]:
    return [(each - NOW) / HOUR for each in known.corrected(vc, NOW, moments(NOW, foreseen))]


waits = st.lists(st.floats(0, 200), min_size=ENOUGH, max_size=60)
forecasts = st.lists(st.floats(0, 100), min_size=3, max_size=3).map(sorted)


@given(waits, st.lists(st.booleans(), min_size=60, max_size=60), forecasts, forecasts)
def test_moments_stay_in_their_order_and_none_is_before_now(
    came: list[float], opens: list[bool], before: list[float], foreseen: list[float]
) -> None:
    history = [
        seen(None if open_ else wait, foreseen=before, ago=wait) for wait, open_ in zip(came, opens, strict=False)
    ]
    found = Corrections(history, NOW).corrected("a", NOW, moments(NOW, foreseen))
    assert NOW <= found[0] <= found[1] <= found[2]


@given(st.lists(st.floats(1, 20), min_size=ENOUGH, max_size=60), st.floats(1, 1.5))
def test_a_history_that_was_further_off_never_makes_the_range_narrower(came: list[float], further: float) -> None:
    """Each start is further from the middle one."""
    middle = sorted(came)[len(came) // 2]
    worse = [middle * (wait / middle) ** further for wait in came]
    p10, _, p90 = hours(Corrections(map(seen, came), NOW))
    low, _, high = hours(Corrections(map(seen, worse), NOW))
    assert high / low >= p90 / p10 * 0.99


@given(waits, st.integers(0, 59), st.floats(0, 100))
def test_a_start_that_came_later_never_makes_a_forecast_sooner(came: list[float], at: int, more: float) -> None:
    later = [wait + more * (place == at) for place, wait in enumerate(came)]
    before, after = hours(Corrections(map(seen, came), NOW)), hours(Corrections(map(seen, later), NOW))
    assert all(one <= other for one, other in zip(before, after, strict=True))


def test_eight_of_ten_starts_fall_into_the_corrected_range_where_hardly_any_did() -> None:
    """Errors as a queue has them that others join: most come late, some much. Each ten forecasts learn from those
    before, and from how those did that were shown."""
    rng = random.Random(1)
    history: list[PastForecast] = []
    for _ in range(40):
        shown = Corrections(history, NOW).corrected("a", NOW - 100 * HOUR, moments(NOW - 100 * HOUR))
        came = [2 * rng.lognormvariate(1.5, 1.0) for _ in range(10)]
        history = [*(seen(wait)._replace(shown=shown) for wait in came), *history]
    fresh = [(one.started or 0, one) for one in history[:300]]
    assert sum(one.moments[0] <= at <= one.moments[2] for at, one in fresh) / len(fresh) < 0.2
    assert sum(one.shown[0] <= at <= one.shown[2] for at, one in fresh) / len(fresh) == pytest.approx(0.8, abs=0.05)


def test_what_still_waits_counts_though_nobody_knows_for_how_long() -> None:
    """Half of them started as foreseen, and half still wait after ten hours."""
    half = [seen(2, ago=10) for _ in range(ENOUGH)]
    known = Corrections([*half, *(seen(None, ago=10) for _ in range(ENOUGH))], NOW)
    assert hours(Corrections(half, NOW))[2] == pytest.approx(2, abs=0.1)
    assert hours(known)[2] > 6


def test_what_has_just_been_foreseen_says_nothing_yet() -> None:
    came = [seen(hours) for hours in (1.0, 2.0, 3.0) for _ in range(ENOUGH)]
    fresh = [seen(None, ago=0) for _ in range(5 * ENOUGH)]
    assert hours(Corrections([*fresh[: MOST - len(came)], *came], NOW)) == pytest.approx(hours(Corrections(came, NOW)))


def test_little_history_changes_nothing() -> None:
    assert hours(Corrections([seen(50)] * (ENOUGH - 1), NOW)) == list(FORESEEN)


def test_a_virtual_cluster_with_enough_history_goes_by_its_own() -> None:
    known = Corrections([*(seen(4, "late") for _ in range(ENOUGH)), *(seen(2, "due") for _ in range(ENOUGH))], NOW)
    assert hours(known, vc="late")[1] == pytest.approx(2 * 2 ** _LATER[1], abs=0.1)
    assert hours(known, vc="due")[1] == pytest.approx(2, abs=0.1)
    assert hours(known, vc="new")[1] == pytest.approx(2, abs=0.1)


def test_short_waits_and_long_ones_are_off_by_factors_of_their_own() -> None:
    soon = [seen(0.4, foreseen=(0.05, 0.1, 0.15)) for _ in range(ENOUGH)]
    known = Corrections([*soon, *(seen(2) for _ in range(ENOUGH))], NOW)
    assert hours(known)[1] == pytest.approx(2, abs=0.1)
    assert hours(known, (0.05, 0.1, 0.15))[1] == pytest.approx(0.1 * 4 ** _LATER[1], abs=0.05)
    assert hours(known, (20, 21, 22))[1] > 15, "of waits that long nothing is known but by others"


@pytest.mark.parametrize(("late", "wider"), [(1.0, True), (0.1, False), (0.0, False)])
def test_where_more_of_those_shown_were_late_than_should_the_end_of_the_range_moves_on(
    late: float, wider: bool
) -> None:
    rng = random.Random(1)
    came = [rng.uniform(1, 10) for _ in range(60)]
    history = list(map(seen, came))
    missed = [at < late * len(came) for at in range(len(came))]
    shown = [
        one._replace(shown=(one.made, one.started, (one.started or 0) + (-1 if is_late else 1)))
        for one, is_late in zip(history, missed, strict=True)
    ]
    before, after = hours(Corrections(history, NOW)), hours(Corrections(shown, NOW))
    assert after[2] > before[2] if wider else after[2] <= before[2]


def test_an_open_forecast_was_late_once_its_range_is_over() -> None:
    history = [seen(hours) for hours in range(1, 21) for _ in range(4)]
    over = [seen(None, ago=1)._replace(shown=(NOW - HOUR, NOW - 2, NOW - 1)) for _ in range(20)]
    open_ = [one._replace(shown=(NOW - HOUR, NOW - 2, NOW + 1)) for one in over]
    assert hours(Corrections([*over, *history], NOW))[2] > hours(Corrections([*open_, *history], NOW))[2]


def test_only_the_newest_of_a_class_count() -> None:
    known = Corrections([*(seen(2) for _ in range(MOST)), *(seen(50) for _ in range(MOST))], NOW)
    assert hours(known)[2] == pytest.approx(2, abs=0.1)
