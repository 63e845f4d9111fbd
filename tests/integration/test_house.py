"""The measures that ARCHITECTURE.md tells of the house are those of the tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.urls import get_resolver
from rest_framework.test import APIClient

from clusters.engines import schemes as engines
from jobs.models import Job
from portal.models import User
from tests import house
from tests.cluster import Clock, Cluster, config

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(alice: User, settings: Any, tmp_path: Path) -> Iterator[Cluster]:
    settings.HOME = tmp_path
    made = Cluster(alice, Clock())
    made.add_node()
    yield made
    engines.use(None)


def test_the_table_is_that_of_the_tree() -> None:
    assert house.written() == house.table(), "python -m tests.house write"


def test_a_job_goes_through_as_many_rooms_as_the_page_says(
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
    said = re.search(r"at most (\d+) modules of (\d+) rooms; on the way back (\d+) of (\d+)", house.PAGE.read_text())
    assert said is not None
    counted = [len(there), rooms(there), len(back), rooms(back)]
    told = [int(number) for number in said.groups()]
    assert all(number <= most for most, number in zip(told, counted, strict=True)), counted


def rooms(modules: set[str]) -> int:
    return len({"/".join(name.split("/")[:-1][:2]) for name in modules})
