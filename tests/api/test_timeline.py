"""GET /cluster/timeline: what was held, page by page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from base.models import User
from tests.history import HOUR, held
from tests.http import ApiClient

Api = Callable[[User | None], ApiClient]
pytestmark = pytest.mark.django_db
NOW = time.time_ns() // 1_000_000
URL = f"/api/v1/cluster/timeline?from={NOW - 5 * HOUR}&to={NOW}"


def test_it_says_which_job_held_which_gpu_when(api: Api, alice: User) -> None:
    held(NOW - 3 * HOUR, NOW - HOUR, gpus=2, gpu_ids="0,3", outcome="EVICTED", guest=True, job_name="a b")
    held(NOW - 9 * HOUR, NOW - 6 * HOUR)
    (item,) = api(alice).get(URL).json()["held"]
    assert item == {
        "job": "alice~a b",
        "vc": "default",
        "attempt": 1,
        "task": "worker-0",
        "node": "gpu-01",
        "gpus": ["0", "3"],
        "gpuType": "A100",
        "cpus": 2,
        "memoryMB": 1024,
        "guest": True,
        "from": NOW - 3 * HOUR,
        "to": NOW - HOUR,
        "outcome": "EVICTED",
        "events": "/api/v1/user/alice/jobs/a%20b/events",
    }


def test_what_runs_has_no_end(api: Api, alice: User) -> None:
    held(NOW - 3 * HOUR, None)
    (item,) = api(alice).get(URL).json()["held"]
    assert (item["to"], item["outcome"]) == (None, None)


def test_it_goes_on_where_a_page_ended(api: Api, alice: User) -> None:
    rows = [held(NOW - 3 * HOUR, NOW - HOUR, node=f"n{at % 2}") for at in range(5)]
    first = api(alice).get(f"{URL}&limit=3").json()
    assert first["next"] == rows[2].pk
    second = api(alice).get(f"{URL}&limit=3&after={first['next']}").json()
    assert [len(first["held"]), len(second["held"]), second["next"]] == [3, 2, None]
    assert len(api(alice).get(f"{URL}&node=n1").json()["held"]) == 2


@pytest.mark.parametrize("query", ["from=x", "from=2020-01-01", "limit=-1", "after=a", "to=2026-01-01&from=2026-02-01"])
def test_what_is_wrong_is_said(api: Api, alice: User, query: str) -> None:
    answer = api(alice).get(f"/api/v1/cluster/timeline?{query}")
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_who_may_not_read_jobs_reads_no_timeline(api: Api, settings: Any) -> None:
    assert api(None).get(URL).status_code == 200
    settings.ANONYMOUS_READ = "none"
    assert api(None).get(URL).status_code == 401
