"""Windows of time: what texts mean, and their days in zones where a day has not 24 hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from base.core.errors import BadRequest
from base.core.values import local_time, milliseconds
from jobs.history.window import TimeWindow, read_window

NOW = datetime(2026, 11, 20, 14, 32, tzinfo=UTC)
HOUR = 3_600_000
BERLIN = ZoneInfo("Europe/Berlin")


def asked(begin: str, end: str, now: datetime = NOW) -> TimeWindow:
    return read_window(begin, end, now, span=timedelta(days=30), longest=timedelta(days=400))


def test_without_times_it_is_the_last_span() -> None:
    window = asked("", "")
    assert (window.begin, window.end) == (milliseconds(NOW - timedelta(days=30)), milliseconds(NOW))


def test_a_day_as_the_end_means_its_end() -> None:
    window = asked("2026-11-19", "2026-11-20")
    assert window.end - window.begin == 48 * HOUR
    assert window.until == milliseconds(NOW), "nothing was used in the future"


@pytest.mark.parametrize("text", ["1763560800000", "2025-11-19T14:00:00Z", "2025-11-19T15:00:00+01:00"])
def test_a_time_may_be_written_in_several_ways(text: str) -> None:
    assert asked(text, "").begin == 1_763_560_800_000


def test_a_span_is_before_now() -> None:
    assert asked("24h", "1h").begin == milliseconds(NOW - timedelta(hours=24))


@pytest.mark.parametrize(
    ("begin", "end", "says"),
    [
        ("yesterday", "", "from is not a time"),
        ("", "2026-13-01", "to is not a time"),
        ("-5", "", "from is not a time"),
        ("9" * 30, "", "from is not a time"),
        ("0001-01-01", "", "from is not a time"),
        ("", "9999-12-31", "to is not a time"),
        ("99999w", "", "from is not a time"),
        ("１２", "", "from is not a time"),
        ("2026-11-20", "2026-11-18", "The range is empty"),
        ("2020-01-01", "", "at most 400 days"),
    ],
)
def test_what_is_no_range_is_refused_with_a_sentence(begin: str, end: str, says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        asked(begin, end)
    assert says in refused.value.message


def test_days_begin_at_midnight_of_the_zone() -> None:
    window = asked("2026-10-24", "2026-10-26", datetime(2026, 11, 1, tzinfo=BERLIN))
    hours = [(after - before) / HOUR for before, after in zip(window.days(), window.days()[1:], strict=False)]
    assert hours == [24, 25, 24], "the clocks were set back on the 25th"


def test_the_offset_changes_when_the_clocks_are_set() -> None:
    window = asked("2026-10-24", "2026-10-26", datetime(2026, 11, 1, tzinfo=BERLIN))
    assert [ahead / HOUR for _, ahead in window.offsets()] == [2, 1]
    assert local_time(window.offsets()[1][0], UTC) == datetime(2026, 10, 25, 1, tzinfo=UTC)
