"""Jobs that come while others wait: drawn from those that came lately, and played with the queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.forecast.arrivals import DAY, MOST, Arrivals
from jobs.forecast.play import starts
from jobs.planning.queue.lengths import DRAWS
from jobs.planning.queue.scene import Scene
from jobs.planning.world import JobView
from tests.unit.test_forecast import HOUR, ahead, busy, never, waiting
from tests.unit.test_planner import NOW

BEGAN = 10**9  # seconds of some clock
moments = st.lists(st.floats(0, 10 * DAY), max_size=40)


def came(at: Sequence[float], **values: Any) -> Arrivals[JobView]:
    return Arrivals([(BEGAN + each, waiting(7, **values)) for each in at])


@given(moments, st.floats(0, 12 * DAY), st.integers(0, DRAWS - 1))
def test_they_come_after_now_in_their_order_and_not_without_end(at: list[float], now: float, draw: int) -> None:
    coming = came([each for each in at if each <= now]).coming(BEGAN + now, draw)
    delays = [delay for delay, _ in coming]
    assert delays == sorted(delays) and all(0 <= delay <= DAY for delay in delays) and len(delays) <= MOST
    assert [job.id for _, job in coming] == list(range(-1, -1 - len(coming), -1))
    assert [job.since for _, job in coming] == sorted(job.since for _, job in coming)


@given(moments, st.integers(0, DRAWS - 1))
def test_a_draw_says_the_same_each_time(at: list[float], draw: int) -> None:
    assert came(at).coming(BEGAN + 11 * DAY, draw) == came(at).coming(BEGAN + 11 * DAY, draw)


def test_what_came_at_the_same_hour_on_days_before_comes_again() -> None:
    """Each day two jobs came at three o'clock and none at another time; it is one o'clock."""
    daily = came([day * DAY + 3 * HOUR + extra for day in range(4) for extra in (0, 60)])
    found = [daily.coming(BEGAN + 4 * DAY + HOUR, draw) for draw in range(DRAWS)]
    assert {round(delay) for coming in found for delay, _ in coming} == {2 * 3600, 2 * 3600 + 60}
    assert all(len(coming) == 2 for coming in found)


def test_where_no_day_is_known_what_came_in_the_last_hours_comes_again_and_again() -> None:
    """One came each ten minutes of the last two hours."""
    coming = came([600 * at for at in range(1, 13)]).coming(BEGAN + 7200, 0)
    assert 11 * 11 < len(coming) < 14 * 13, "of the following day"
    assert came([]).coming(BEGAN, 0) == ()


def test_whoever_has_used_less_and_comes_later_starts_before_those_that_wait() -> None:
    """The GPUs are held by somebody who has two more jobs, of which the first keeps its turn."""
    lengths = {1: HOUR, 2: HOUR, 3: HOUR, -1: 2 * HOUR}
    other = waiting(-1, username="new", since="~")

    def found(*coming: tuple[float, JobView]) -> float:
        spread = starts(
            [waiting(2), waiting(3)],
            Scene(now=NOW, **busy()),
            lambda one: [lengths[one.id]] * DRAWS,
            lambda: 0.0,
            coming=lambda draw: coming,
        ).spreads[3]
        return (spread.p50 - NOW).total_seconds()

    assert found() == 2 * HOUR
    assert found((600.0, other)) == 4 * HOUR
    assert found((3 * HOUR, other)) == 2 * HOUR, "it comes too late"


@settings(max_examples=10)
@given(st.lists(st.integers(60, 40_000), min_size=1, max_size=4))
def test_without_arrivals_and_with_ends_that_are_known_each_start_is_known(seconds: list[int]) -> None:
    """One after the other on the same GPUs."""
    jobs = [waiting(id) for id in range(2, 2 + len(seconds))]
    found = starts(jobs, Scene(now=NOW, **busy()), lambda one: [([50.0, *seconds])[one.id - 1]] * DRAWS, never)
    begins = accumulate([50.0, *seconds[:-1]])
    for one, begin in zip(jobs, begins, strict=True):
        assert [(each - NOW).total_seconds() for each in found.spreads[one.id]] == [begin] * 3


@settings(max_examples=10)
@given(st.lists(st.floats(1, 1e5), min_size=8, max_size=8))
def test_p10_is_never_after_p50_nor_that_after_p90(lengths: list[float]) -> None:
    jobs = [waiting(id, gpus=2 + id % 3) for id in range(2, 6)]
    seconds = dict(enumerate(lengths, 1))
    found = ahead(jobs, seconds, **busy())
    assert all(0 <= p10 <= p50 <= p90 for p10, p50, p90 in found.values())
