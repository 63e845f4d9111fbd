"""The page of forecasts: what was shown beside what came true, for admins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.test import Client
from django.utils import timezone

from base.core.values import milliseconds
from base.models import User
from jobs.forecast.scores import WEEK
from jobs.models import Prediction
from tests.builders import make_job
from tests.history import HOUR

Browse = Callable[[User | None], Client]
MINUTE = HOUR // 60


def shown(made: int, start: int | None, job: int = 10**6, wait: int = HOUR, **more: Any) -> None:
    """A forecast from half of the wait to one and a half times it; ``start``: when the job started, after ``made``."""
    Prediction.objects.create(
        job_id=job,
        attempt=1,
        made=made,
        p10=made + wait // 2,
        p50=made + wait,
        p90=made + 3 * wait // 2,
        started=None if start is None else made + start,
        **more,
    )


def some_weeks(weeks: int = 10) -> None:
    now = milliseconds(timezone.now())
    for week in range(weeks):
        for at in range(40 - 4 * (week % 10)):
            start = (HOUR, HOUR, HOUR, HOUR, HOUR // 4, 3 * HOUR)[at % (6 if week % 2 else 5)]
            shown(now - week * WEEK - at * MINUTE, start, guess=now, by_limit=now + 24 * HOUR)


def test_it_adds_up_what_was_within_early_and_late(browse: Browse, admin: User) -> None:
    now = milliseconds(timezone.now())
    for start in (HOUR, HOUR, 2 * HOUR, HOUR // 4):
        made = now - 5 * HOUR
        shown(made, start, guess=made, by_limit=made + 4 * HOUR, played=[made, made, made + HOUR])
    page = browse(admin).get("/forecasts").context
    values = {cell.name: cell.value for cell in page["cells"]}
    assert values == {
        "Within the range": "50 %",
        "Within, uncorrected": "75 %",
        "Shown too early": "25 %",
        "Shown too late": "25 %",
        "Median error": "22 min 30 s",
        "Median error of the last wait": "1 h",
        "Median error by limits": "3 h",
    }
    assert [(line.name, line.score.scored, line.worst) for line in page["lines"]][2] == (
        "1 h to 6 h",
        4,
        "1 h late",
    )


def test_weeks_outside_the_aim_are_marked_and_those_of_few_starts_are_hollow(browse: Browse, admin: User) -> None:
    monday = milliseconds(timezone.now()) // WEEK * WEEK - 2 * WEEK + 4 * 24 * HOUR
    for week, (within, outside) in enumerate([(32, 8), (20, 20), (8, 2)]):
        for at in range(within + outside):
            shown(monday - week * WEEK, HOUR if at < within else 9 * HOUR)
    answer = browse(admin).get("/forecasts")
    dots = answer.context["chart"]["dots"]
    assert [(dot.css, label) for dot, label, *_ in dots] == [("few", "80"), ("off", "50"), ("ok", "80")]
    assert answer.content.decode().count('<circle class="off"') == 1


def test_every_forecast_stands_beside_what_came_true(browse: Browse, admin: User) -> None:
    job = make_job("alice", "trains")
    now = milliseconds(timezone.now())
    shown(now, None, job.pk)
    shown(now - HOUR, 3 * HOUR, job.pk)
    shown(now - 2 * HOUR, HOUR)
    last = browse(admin).get("/forecasts").context["last"]
    assert [(one["name"], one["url"], one["says"]) for one in last] == [
        ("alice/trains", "/jobs/alice/trains", "not started yet"),
        ("alice/trains", "/jobs/alice/trains", "later"),
        ("", "", "in the range"),
    ]


def test_it_is_for_admins_who_are_led_there(browse: Browse, admin: User, alice: User) -> None:
    assert [browse(who).get("/forecasts").status_code for who in (alice, None)] == [403, 302]
    assert 'href="/forecasts"' in browse(admin).get("/").content.decode()
    assert 'href="/forecasts"' not in browse(alice).get("/").content.decode()


def test_without_a_start_it_says_so(browse: Browse, admin: User) -> None:
    assert "No job has started yet of which a range was shown." in browse(admin).get("/forecasts").content.decode()


def test_it_asks_as_little_for_many(browse: Browse, admin: User, count_queries: Callable[..., int]) -> None:
    client = browse(admin)
    few = count_queries(lambda: client.get("/forecasts"))
    some_weeks()
    assert count_queries(lambda: client.get("/forecasts")) <= few + 1  # the names of jobs
