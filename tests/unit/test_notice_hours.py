"""Quiet hours and digests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.notices.hours import Hours

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Hours(22 * 60, 7 * 60 + 30, 18 * 60, BERLIN)
MINUTES = st.integers(0, 24 * 60 - 1)
HOURS = st.builds(Hours, MINUTES, MINUTES, MINUTES, st.just(BERLIN), st.booleans(), st.booleans())
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("now", "after"),
    [
        ("2026-11-27T21:59", "2026-11-27T21:59"),
        ("2026-11-27T22:00", "2026-11-28T07:30"),
        ("2026-11-28T03:00", "2026-11-28T07:30"),
        ("2026-11-28T07:30", "2026-11-28T07:30"),
    ],
)
def test_over_night_it_is_held_back_until_the_morning(now: str, after: str) -> None:
    assert NIGHT.after_quiet(at(now)) == at(after)


def test_a_weekend_is_quiet_until_monday_morning() -> None:
    hours = Hours(22 * 60, 7 * 60 + 30, 18 * 60, BERLIN, weekends=True)
    assert hours.after_quiet(at("2026-11-27T23:00")) == at("2026-11-30T07:30")
    assert hours.next_digest(at("2026-11-27T18:00")) == at("2026-11-30T07:30")
    assert hours.next_digest(at("2026-11-27T17:59")) == at("2026-11-27T18:00")


def test_by_day_it_may_be_quiet_too_and_where_both_ends_are_one_it_never_is() -> None:
    assert Hours(600, 660, 0, UTC).after_quiet(at("2026-11-27T11:30")) == datetime(2026, 11, 27, 11, tzinfo=UTC)
    assert not Hours(600, 600, 0, UTC).is_quiet(datetime(2026, 11, 27, 10, tzinfo=UTC))


@given(HOURS, MOMENTS)
def test_what_is_held_back_comes_within_four_days_and_when_it_is_not_quiet(hours: Hours, now: datetime) -> None:
    """Four: a weekend, and a night before it and after it. A clock that is set forward skips minutes, which may be the
    very ones that are not quiet: those of another day are taken then."""
    for then in (hours.after_quiet(now), hours.next_digest(now)):
        assert now <= then <= now + timedelta(days=5)
        assert not hours.is_quiet(then) or then.astimezone(BERLIN).utcoffset() != now.astimezone(BERLIN).utcoffset()


def test_days_go_by_the_zone_of_the_user_and_not_by_that_of_the_portal() -> None:
    tokyo = Hours(22 * 60, 7 * 60, 0, timezone(timedelta(hours=9)))
    assert tokyo.is_quiet(datetime(2026, 11, 27, 14, tzinfo=UTC)) and not NIGHT.is_quiet(at("2026-11-27T14:00"))
