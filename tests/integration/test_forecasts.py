"""Forecasts of starts: written where pages read them, kept beside what came true, and never part of a pass."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone
from django.utils.module_loading import import_string
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from base.core.values import milliseconds
from base.models import User
from jobs.forecast import errors, play, recent, refresh, scores
from jobs.forecast.play import starts
from jobs.models import Holding, Job, Prediction
from jobs.planning.streak import streak
from jobs.scheduling import orders
from jobs.waiting.why import turn_of, waiting_reason
from jobs.waiting.words import briefly, current, likely, not_before
from portal.job import cause
from tests.cluster import Cluster
from tests.history import HOUR, a_past
from tests.http import ApiClient

pytestmark = pytest.mark.django_db
BUDGET = 600.0  # seconds: a busy machine takes longer


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the spread is not what is asked, the future is played as often as it must be."""
    monkeypatch.setattr(play, "DRAWS", play.LEAST_DRAWS)


def a_queue(cluster: Cluster) -> tuple[Job, Job]:
    """One job runs on all GPUs, another one waits for them."""
    cluster.add_node(gpus=2)
    runs = cluster.submit(name="train-98", roles=[{"gpuNumber": 2}])
    cluster.settle()
    return runs, cluster.submit(name="train-99", roles=[{"gpuNumber": 2}])


def test_a_waiting_job_starts_when_the_one_before_it_is_likely_to_end(cluster: Cluster) -> None:
    a_past()
    _, waits = a_queue(cluster)
    assert refresh.refresh(BUDGET) == 1
    shown: Any = cluster.job(waits).forecast
    now = milliseconds(timezone.now())
    assert now < shown["p10"] < shown["p50"] < shown["p90"]
    assert shown["p50"] - now == pytest.approx(HOUR, rel=0.1)
    reason = waiting_reason(cluster.job(waits), turn_of(cluster.job(waits)))
    assert reason["forecast"] == shown


def test_behind_more_jobs_than_can_be_played_a_job_has_the_moment_before_which_it_hardly_starts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_past()
    _, waits = a_queue(cluster)
    last = cluster.submit(name="train-100", roles=[{"gpuNumber": 2}])
    monkeypatch.setattr(refresh, "starts", partial(starts, most=1))
    assert refresh.refresh(BUDGET) == 1
    first: Any = cluster.job(waits).forecast
    reason = waiting_reason(cluster.job(last), turn_of(cluster.job(last)))
    assert (reason["notBefore"], reason.get("forecast")) == (first["p10"], None)
    assert "after" in cause.waiting(reason).facts[0].text


def test_a_job_that_failed_before_still_says_where_room_is_kept_for_it(cluster: Cluster) -> None:
    _, waits = a_queue(cluster)
    reason = waiting_reason(cluster.job(waits), turn_of(cluster.job(waits)))
    failed = streak([(1, 255, {})], 0)
    for facts in (cause.waiting(reason).facts, cause.waiting(reason, failed).facts):
        assert {fact.name: fact.text for fact in facts}["Reserved"].startswith("Room is kept for it on n1")


def test_without_any_history_nothing_is_forecast(cluster: Cluster) -> None:
    _, waits = a_queue(cluster)
    Holding.objects.filter(ended__isnull=False).delete()
    assert refresh.refresh(BUDGET) == 0
    assert "forecast" not in waiting_reason(cluster.job(waits), turn_of(cluster.job(waits)))


def test_what_was_shown_is_scored_by_what_came_true(cluster: Cluster) -> None:
    a_past()
    runs, waits = a_queue(cluster)
    refresh.refresh(BUDGET)
    one = Prediction.objects.get()
    assert (one.job_id, one.attempt, one.started) == (waits.pk, 1, None)
    assert scores.accuracy().scored == 0
    cluster.ahead(3600)
    cluster.finish(runs)
    cluster.settle()
    refresh.refresh(BUDGET)
    one.refresh_from_db()
    assert one.started is not None and one.p10 <= one.started <= one.p90
    seen = scores.accuracy()
    assert (seen.scored, seen.within, seen.early, seen.late) == (1, 1.0, 0.0, 0.0)
    assert cluster.job(waits).forecast is None, "it runs"


def test_beside_it_is_kept_what_limits_alone_would_have_said(cluster: Cluster) -> None:
    a_past()
    cluster.add_node(gpus=2)
    cluster.submit(name="train-98", roles=[{"gpuNumber": 2}], extras={"maxRunSeconds": 7200})
    cluster.settle()
    waits = cluster.submit(name="train-99", roles=[{"gpuNumber": 2}])
    last = cluster.submit(name="train-100", roles=[{"gpuNumber": 2}])
    refresh.refresh(BUDGET)
    by_job = {one.job_id: (one.by_limit or 0) - one.made for one in Prediction.objects.all()}
    assert by_job[waits.pk] == pytest.approx(2 * HOUR, rel=0.01)
    assert by_job[last.pk] == pytest.approx(26 * HOUR, rel=0.01), "one without a limit counts for a day"


def test_what_earlier_forecasts_missed_is_in_the_next_one_and_the_play_is_kept_beside_it(cluster: Cluster) -> None:
    a_past()
    _, waits = a_queue(cluster)
    made = milliseconds(timezone.now()) - 10 * 3_600_000
    for at in range(errors.ENOUGH):
        foreseen, came = (made + hours * 3_600_000 for hours in (1, 3))
        shown = dict.fromkeys(("p10", "p50", "p90"), foreseen)
        shown |= {"made": made, "started": came, "job_id": 10**6 + at}
        Prediction.objects.create(attempt=1, vc="default", played=[foreseen] * 3, **shown)
    refresh.refresh(BUDGET)
    one = Prediction.objects.get(job_id=waits.pk)
    assert one.vc == "default" and one.played is not None
    factor = (one.p50 - one.made) / (one.played[1] - one.made)
    assert factor == pytest.approx(3 ** errors._LATER[1], rel=0.05)
    assert cluster.job(waits).forecast == {"p10": one.p10, "p50": one.p50, "p90": one.p90}


def test_jobs_that_came_lately_may_come_again(cluster: Cluster) -> None:
    """Those that run and those that wait, each with what it asked for."""
    runs, waits = a_queue(cluster)
    came = recent.read_arrivals(timezone.now())._came
    assert [(job.title, job.vc, [demand.gpus for demand in job.demands]) for _, job in came] == [
        (f"{each.username}/{each.name}", "default", [2]) for each in (runs, waits)
    ]
    assert [at for at, _ in came] == [cluster.job(each).created_at.timestamp() for each in (runs, waits)]
    assert recent.read_arrivals(timezone.now() + timedelta(days=8))._came == []
    Job.objects.update(total_tasks=recent._TASKS)
    assert len(recent.read_arrivals(timezone.now())._came) == 1, "no more than so many tasks are read"


@pytest.mark.usefixtures("few_draws")
def test_a_forecast_is_noted_again_only_after_a_while(cluster: Cluster) -> None:
    a_past()
    a_queue(cluster)
    refresh.refresh(BUDGET)
    refresh.refresh(BUDGET)
    assert Prediction.objects.count() == 1
    Prediction.objects.update(made=milliseconds(timezone.now() - timedelta(hours=2)))
    refresh.refresh(BUDGET)
    assert Prediction.objects.count() == 2


@pytest.mark.usefixtures("few_draws")
def test_the_prediction_of_a_job_that_never_starts_is_forgotten(cluster: Cluster) -> None:
    a_past()
    _, waits = a_queue(cluster)
    refresh.refresh(BUDGET)
    Job.objects.filter(pk=waits.pk).update(state="STOPPED")
    refresh.refresh(BUDGET)
    assert not Prediction.objects.exists()


@pytest.mark.usefixtures("few_draws")
def test_a_forecast_wakes_no_pass(cluster: Cluster) -> None:
    a_past()
    a_queue(cluster)
    cluster.tick()
    refresh.refresh(BUDGET)
    assert cluster.tick() == 0


def test_a_worker_is_asked_only_while_a_job_waits(cluster: Cluster) -> None:
    cluster.lose_orders()
    orders.ask_for_forecasts()
    assert not OrmQ.objects.exists()
    cluster.submit()
    orders.ask_for_forecasts()
    order = SignedPackage.loads(OrmQ.objects.get().payload)
    assert import_string(order["func"]) is refresh.order


def test_of_turns_that_have_not_changed_a_worker_is_asked_now_and_then(cluster: Cluster) -> None:
    a_past()
    runs, _ = a_queue(cluster)
    scheduler = cluster.scheduler

    def is_asked() -> bool:
        cluster.settle()
        cluster.tick()  # in which nothing changes
        cluster.lose_orders()
        scheduler._ask_for_forecasts()
        asked = OrmQ.objects.exists()
        cluster.lose_orders()
        return asked

    assert is_asked() and not is_asked()
    cluster.submit(name="train-100", roles=[{"gpuNumber": 2}])
    assert is_asked() and not is_asked()
    scheduler._forecast_still_at = 0.0  # it is time
    assert is_asked() and not is_asked()
    cluster.finish(runs)
    assert is_asked(), "a job has started"


@pytest.mark.usefixtures("few_draws")
def test_a_worker_is_asked_once_more_when_the_last_one_that_waited_has_started(cluster: Cluster) -> None:
    a_past()
    runs, waits = a_queue(cluster)
    refresh.refresh(BUDGET)
    cluster.finish(runs)
    cluster.settle()
    assert cluster.job(waits).state == "RUNNING"
    OrmQ.objects.all().delete()
    orders.ask_for_forecasts()
    assert OrmQ.objects.count() == 1
    refresh.refresh(BUDGET)
    orders.ask_for_forecasts()
    assert OrmQ.objects.count() == 1, "nothing is left to note"


def test_the_api_says_how_good_forecasts_were(api: Any, alice: User) -> None:
    for started, guess in ((50, 500), (150, 150), (160, 260), (250, None)):
        Prediction.objects.create(
            job_id=1,
            attempt=1,
            made=0,
            p10=100,
            p50=150,
            p90=200,
            guess=guess,
            by_limit=guess,
            started=started,
            played=[140, 145, 155],
        )
    client: ApiClient = api(alice)
    assert client.get("/api/v1/cluster/forecasts").json() == {
        "scored": 4,
        "aim": 0.8,
        "within": 0.5,
        "withinUncorrected": 0.25,
        "early": 0.25,
        "late": 0.25,
        "medianError": 55,
        "medianErrorOfGuess": 100,
        "medianErrorByLimits": 100,
    }
    assert api(None).get("/api/v1/cluster/forecasts").status_code == 401


def test_a_forecast_is_a_time_with_its_spread_until_it_is_overtaken() -> None:
    now = timezone.now().replace(hour=12, minute=0)
    spread = {name: milliseconds(now + timedelta(minutes=at)) for name, at in (("p10", 5), ("p50", 30), ("p90", 90))}
    assert likely(spread, now) == ("about 12:30", "8 of 10 such starts are between 12:05 and 13:30")
    assert briefly(spread, now) == "Starts at about 12:30 (12:05 to 13:30)."
    assert current(spread, now) == spread
    assert current(spread, now + timedelta(hours=2)) is None
    after = {"after": spread["p50"]}
    assert (not_before(after, now), not_before(after, now + timedelta(hours=1))) == (spread["p50"], None)
    assert current(after, now) is None and not_before(spread, now) is None
    narrow = dict.fromkeys(spread, spread["p50"])
    assert likely(narrow, now) == ("about 12:30", "8 of 10 such starts are within that minute")
    assert briefly(narrow, now) == "Starts at about 12:30 (within that minute)."
    assert current(None, now) is None
