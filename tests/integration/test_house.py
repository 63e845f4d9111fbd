"""How far a job goes through the house: it may become less, and more only where somebody decides so here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.urls import get_resolver
from rest_framework.test import APIClient

from base.models import User
from clusters.engines import schemes
from jobs.models import Job
from tests import house
from tests.cluster import Clock, Cluster, config

pytestmark = pytest.mark.django_db

# Modules that a job of one task enters: from its POST to its container, and from its end to its page; and rooms.
MOST_THERE, MOST_BACK = 115, 96
ROOMS_A_FLOOR = 12


@pytest.fixture
def cluster(alice: User, settings: Any, tmp_path: Path) -> Iterator[Cluster]:
    settings.HOME = tmp_path
    made = Cluster(alice, Clock())
    made.add_node()
    yield made
    schemes.set_engine_factory(None)


def test_the_measures_count_every_floor() -> None:
    ours = house.House()
    rows = [dict(zip(house.HEAD, ours.row(app), strict=True)) for app in house.APPS]
    assert [row["floor"] for row in rows] == list(house.APPS)
    assert all(row["lines"] and row["rooms"] and not row["arrows up"] for row in rows)


def test_the_measures_see_a_circle_and_an_arrow_that_runs_up(tmp_path: Path) -> None:
    files = {
        "jobs/a/x.py": "import jobs.b.x",
        "jobs/b/x.py": "from jobs.a import x\nimport portal.c.x",
        "portal/c/x.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    row = dict(zip(house.HEAD, house.House(tmp_path).row("jobs"), strict=True))
    assert (row["arrows among them"], row["arrows up"]) == (2, 1) and str(row["stories"]).startswith("circle: jobs.")


def test_a_job_goes_through_no_more_modules_and_rooms_than_it_did(
    cluster: Cluster, alice: User, api: Callable[[User | None], APIClient]
) -> None:
    client = api(alice)
    assert get_resolver().url_patterns  # all views are there: what runs from now on runs for the job
    there = house.entered(
        lambda: (client.post("/api/v1/jobs", config("hello"), content_type="application/json"), cluster.settle())
    )
    assert Job.objects.get().state == "RUNNING"
    cluster.finish(Job.objects.get())
    back = house.entered(lambda: (cluster.settle(), client.get("/api/v1/user/alice/jobs/hello")))
    assert Job.objects.get().state == "SUCCEEDED"
    for way, most in ((there, MOST_THERE), (back, MOST_BACK)):
        assert len(way) <= most and max(house.rooms_by_floor(way).values()) <= ROOMS_A_FLOOR, house.rooms_by_floor(way)
