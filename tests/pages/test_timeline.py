"""The page of the timeline: bars, card and table; a day of 10,000 jobs stays small."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from base.core.bulk import insert_values
from base.models import User
from jobs.models import Event, Holding, Job
from tests import http
from tests.builders import make_job, make_node
from tests.history import DAY, HOUR, held
from tests.pages.conftest import Tab

NOW = time.time_ns() // 1_000_000
NAMES = [field.name for field in Holding._meta.concrete_fields]


def get(address: str, user: User | None = None) -> http.Response:
    client = http.Browser()
    if user is not None:
        client.force_login(user)
    return client.get(address)


def text(address: str, user: User | None = None) -> str:
    answer = get(address, user)
    assert answer.status_code == 200
    return answer.content.decode()


def a_day(nodes: int, jobs: int = 10_000) -> None:
    """A day of one-GPU jobs on nodes of 8 GPUs, one after the other on each GPU."""
    for at in range(nodes):
        make_node(f"gpu-{at:03}", gpus=8)
    each = jobs // (nodes * 8) or 1
    long, rows = DAY // each, []
    for at in range(jobs):
        gpu, turn = divmod(at, each)
        began = NOW - DAY + turn * long
        where = {"node": f"gpu-{gpu // 8 % nodes:03}", "gpu_ids": str(gpu % 8), "gpus": 1, "gpu_type": "A100"}
        who = {"job_id": at + 1, "username": f"user{at % 50}", "job_name": f"train-{at}", "vc": "default"}
        what = {"attempt": 1, "role": "worker", "index": 0, "cpus": 2, "memory_mb": 1024, "guest": False, "waited": 0}
        end = {"began": began, "ended": began + long - 1000, "outcome": "SUCCEEDED", "exit_code": 0, "asked": ""}
        row: dict[str, Any] = {"id": at + 1, **who, **what, **where, **end}
        rows.append([row[name] for name in NAMES])
    insert_values(Holding, NAMES, rows)


def in_the_past(job: Job) -> Holding:
    task = job.tasks.get()
    names = {"username": job.username, "job_name": job.name, "outcome": "FAILED"}
    return held(NOW - 2 * HOUR, NOW - HOUR, id=task.pk, job_id=job.pk, **names)


@pytest.mark.django_db
def test_a_bar_leads_to_the_decisions_behind_it(alice: User) -> None:
    job = make_job("alice", "one", state="FAILED")
    row = in_the_past(job)
    for kind, reason in (("job.placed", "The task was placed on gpu-01."), ("attempt.decided", "It ended with 3.")):
        Event.objects.create(job=job, attempt=1, kind=kind, reason=reason, at=timezone.now())
    assert f"task={row.pk}" in text("/timeline")
    card = text(f"/timeline?task={row.pk}", alice)
    assert "The task was placed on gpu-01." in card
    assert "It ended with 3." in card
    assert 'href="/jobs/alice/one/events"' in card


@pytest.mark.django_db
def test_the_story_of_a_private_job_is_not_told(alice: User, bob: User, settings: Any) -> None:
    settings.JOB_PRIVACY = "owner"
    job = make_job("alice", "one", state="FAILED")
    row = in_the_past(job)
    Event.objects.create(job=job, attempt=1, kind="attempt.decided", reason="A secret.", at=timezone.now())
    assert "A secret." in text(f"/timeline?task={row.pk}", alice)
    assert "A secret." not in text(f"/timeline?task={row.pk}", bob)


@pytest.mark.django_db
def test_a_deleted_job_keeps_its_bar() -> None:
    row = held(NOW - 2 * HOUR, NOW - HOUR)
    assert "The job was deleted" in text(f"/timeline?task={row.pk}")
    assert "alice/job" in text("/timeline?view=table")
    assert get(f"/timeline?task={'9' * 40}").status_code == 200


@pytest.mark.django_db
def test_no_time_is_cut_off_at_the_left_edge() -> None:
    begin = 1_700_006_400_000 - 60_000  # a minute before midnight
    ticks = get(f"/timeline?from={begin}&to={begin + 43_200_000}").context["ticks"]
    assert next(says for _, says, _ in ticks) == ""
    assert all(says for _, says, _ in ticks[1:])


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["from=x", "from=2020-01-01", "from=2026-02-01&to=2026-01-01"])
def test_a_wrong_range_is_refused_with_a_sentence(query: str) -> None:
    assert get(f"/timeline?{query}").status_code == 400


@pytest.mark.django_db
@pytest.mark.parametrize(("nodes", "most"), [(20, 1_000_000), (160, 600_000)])
def test_a_day_of_10_000_jobs_is_small(
    count_queries: Callable[[Callable[[], object]], int], nodes: int, most: int
) -> None:
    few = count_queries(lambda: text("/timeline?from=1d"))
    a_day(nodes)
    assert count_queries(lambda: text("/timeline?from=1d")) <= few
    assert len(text("/timeline?from=1d")) < most


@pytest.mark.django_db
def test_the_links_zoom_around_the_middle() -> None:
    seen = text("/timeline?from=1700000000000&to=1700003600000")
    assert "from=1700000900000&amp;to=1700002700000" in seen, "in"
    assert "from=1699998200000&amp;to=1700005400000" in seen, "out"


@pytest.mark.browser
def test_the_keyboard_reaches_a_bar_and_opens_it(tab: Callable[..., Tab], alice: User) -> None:
    held(NOW - int(timedelta(hours=9).total_seconds() * 1000), NOW - HOUR, job_name="long")
    page = tab(alice).open("/timeline")
    page.get_by_role("link", name="alice/long, worker-0, attempt 1").press("Enter")
    page.get_by_role("heading", name="alice/long").wait_for()
