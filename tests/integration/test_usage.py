"""Sums of what was used: exact at the edges of a window, by user, virtual cluster, state and day."""

from __future__ import annotations

import random
from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from base.core.errors import Forbidden
from base.core.values import milliseconds
from base.models import User
from clusters.models import VcGrant, VirtualCluster
from jobs.history import usage
from jobs.history.usage import OTHERS, Filter, UsageSum
from jobs.history.window import TimeWindow
from jobs.models import Holding
from tests.history import DAY, HOUR, held

pytestmark = pytest.mark.django_db
UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
T0 = milliseconds(datetime(2026, 10, 20, tzinfo=UTC))
NOW = T0 + 40 * DAY


def over(begin: int, end: int, zone: ZoneInfo = UTC, **more: str) -> Filter:
    return Filter(TimeWindow(begin, end, NOW, zone), **more)


def lines(which: Filter, by: str, viewer: User) -> list[UsageSum]:
    return usage.report(which, by, viewer)[0]


def total(which: Filter, viewer: User) -> UsageSum:
    return usage.report(which, "vc", viewer)[1]


def by_key(which: Filter, by: str, viewer: User) -> dict[str, UsageSum]:
    return {line.key: line for line in lines(which, by, viewer)}


def test_only_the_part_inside_the_window_counts(admin: User) -> None:
    held(T0 - HOUR, T0 + HOUR, gpus=2, cpus=4)
    held(T0 + 23 * HOUR, T0 + 30 * HOUR)
    held(T0 + 2 * HOUR, T0 + 2 * HOUR + 1, gpus=8)
    held(T0 - 5 * HOUR, T0)
    held(T0 + DAY, T0 + 2 * DAY)
    (line,) = lines(over(T0, T0 + DAY), "user", admin)
    assert (line.gpu_time, line.cpu_time, line.jobs) == (3 * HOUR + 8, 4 * HOUR + 2 * HOUR + 2, 3)


def test_what_has_not_ended_counts_up_to_now(admin: User) -> None:
    held(NOW - HOUR, None)
    (line,) = lines(over(NOW - DAY, NOW + DAY), "state", admin)
    assert (line.key, line.gpu_time) == ("RUNNING", HOUR)


def test_waste_is_what_failed_was_evicted_or_lost(admin: User) -> None:
    for at, outcome in enumerate(("SUCCEEDED", "FAILED", "EVICTED", "LOST", "STOPPED"), 1):
        held(T0, T0 + at * HOUR, outcome=outcome)
    line = total(over(T0, T0 + DAY), admin)
    assert line.wasted == {"FAILED": 2 * HOUR, "EVICTED": 3 * HOUR, "LOST": 4 * HOUR}
    assert {key: each.gpu_time / HOUR for key, each in by_key(over(T0, T0 + DAY), "state", admin).items()} == {
        "SUCCEEDED": 1,
        "FAILED": 2,
        "EVICTED": 3,
        "LOST": 4,
        "STOPPED": 5,
    }


def test_waits_are_those_of_attempts_placed_in_the_window(admin: User) -> None:
    for minute in range(1, 21):
        held(T0 + minute, T0 + HOUR, waited=minute * 60_000)
    held(T0, T0 + HOUR, waited=None)  # another task of an attempt
    held(T0 - HOUR, T0 + HOUR, waited=99 * HOUR)
    (line,) = lines(over(T0, T0 + DAY), "vc", admin)
    assert line.waited_mean == 10.5 * 60_000
    assert line.waited_p95 is not None and 0.98 * 19 < line.waited_p95 / 60_000 <= 19


def test_a_job_of_several_tasks_and_attempts_is_one_job(admin: User) -> None:
    for attempt in (1, 2):
        for index in (0, 1):
            held(T0 + attempt * HOUR, T0 + attempt * HOUR + 1000, job_id=7, attempt=attempt, index=index)
    assert total(over(T0, T0 + DAY), admin).jobs == 1


@pytest.mark.parametrize("zone", [UTC, BERLIN])
def test_days_are_exact_and_add_up(admin: User, zone: ZoneInfo) -> None:
    draw = random.Random(5)
    for _ in range(60):
        began = T0 + draw.randrange(12 * DAY)
        ended = None if draw.random() < 0.1 else began + draw.choice((1, HOUR, 3 * DAY)) * draw.randint(1, 3)
        held(began, ended, gpus=draw.randint(0, 8), outcome=draw.choice(("SUCCEEDED", "FAILED")) if ended else "")
    which = over(T0 + 2 * DAY + 12345, T0 + 9 * DAY, zone)
    edges = which.window.days()
    assert [line.gpu_time for line in lines(which, "day", admin)] == [
        sum(row.gpus * max(0, min(row.ended or NOW, after) - max(row.began, before)) for row in Holding.objects.all())
        for before, after in pairwise(edges)
    ]
    by_day, by_vc = (usage.report(which, by, admin)[1] for by in ("day", "vc"))
    assert by_day == by_vc
    assert by_vc.wasted["FAILED"] > 0
    assert sum(usage.daily(which, "vc", admin)["default"]) == by_vc.gpu_time


def test_a_day_has_the_jobs_placed_on_it(admin: User) -> None:
    held(T0 + HOUR, T0 + 3 * DAY, waited=1000)
    held(T0 + DAY + HOUR, T0 + DAY + 2 * HOUR, waited=3000)
    held(T0 + DAY + HOUR, T0 + DAY + 2 * HOUR, waited=5000)
    days = lines(over(T0, T0 + 3 * DAY), "day", admin)
    assert [line.key for line in days] == [str(T0 + at * DAY) for at in range(3)]
    assert [(line.jobs, line.waited_mean, line.waited_p95) for line in days] == [
        (1, 1000, 1000),
        (2, 4000, 5000),
        (0, None, None),
    ]


def test_users_see_others_only_as_a_sum_of_their_own_virtual_clusters(alice: User) -> None:
    for name in ("nlp", "vision"):
        VirtualCluster.objects.create(name=name, capacity=10, max_capacity=10)
    VcGrant.objects.create(vc=VirtualCluster.objects.get(name="nlp"), username="alice")
    for username, vc, hours in (("alice", "nlp", 1), ("bob", "nlp", 2), ("carol", "default", 4), ("dan", "vision", 8)):
        held(T0, T0 + hours * HOUR, username=username, vc=vc)
    held(T0, T0 + 16 * HOUR, username="alice", vc="gone")
    which = over(T0, T0 + DAY)
    assert {key: line.gpu_time / HOUR for key, line in by_key(which, "user", alice).items()} == {"alice": 17, OTHERS: 6}
    assert {key: line.gpu_time / HOUR for key, line in by_key(which, "vc", alice).items()} == {
        "nlp": 3,
        "default": 4,
        "gone": 16,
    }
    assert total(which, alice).gpu_time == 23 * HOUR


def test_nobody_but_admins_asks_about_another_user(alice: User, admin: User) -> None:
    held(T0, T0 + HOUR, username="bob")
    with pytest.raises(Forbidden):
        lines(over(T0, T0 + DAY, username="bob"), "day", alice)
    assert total(over(T0, T0 + DAY, username="bob"), admin).gpu_time == HOUR


def test_the_number_of_queries_does_not_grow(admin: User, django_assert_max_num_queries: Any) -> None:
    for at in range(50):
        held(T0 + at * HOUR, T0 + 9 * DAY, username=f"u{at}", vc=f"v{at}")
    for by in usage.BY:
        with django_assert_max_num_queries(5):
            lines(over(T0, T0 + 9 * DAY), by, admin)
