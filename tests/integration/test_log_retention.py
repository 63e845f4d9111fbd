"""Logs go by age and size of their virtual cluster, after their job was told, and leave a word."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from base.core.errors import NoLog
from base.files.store import open_store
from clusters.models import VirtualCluster
from jobs.logs import retention
from jobs.logs.follow import hub
from jobs.logs.places import find_archive, folder_of, place_of
from jobs.logs.read import open_log
from jobs.models import Attempt, Event, Job
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Iterator[Path]:
    settings.HOME = tmp_path
    yield tmp_path
    hub.close()


def ended(cluster: Cluster, name: str, days: int, size: int = 100) -> Job:
    """A job that ended so many days ago and left so many bytes."""
    job = cluster.submit(name=name)
    cluster.settle()
    cluster.engines["n1"].print(cluster.task(job).container_name, b"x" * (size - 1) + b"\n")
    cluster.finish(job)
    cluster.settle()
    Attempt.objects.filter(job=job).update(completed_at=timezone.now() - timedelta(days=days))
    return cluster.job(job)


def keep(days: int | None, gigabytes: int | None = None) -> None:
    VirtualCluster.objects.update_or_create(name="default", defaults={"log_days": days, "log_gigabytes": gigabytes})


def kinds(job: Job) -> list[str]:
    return list(Event.objects.filter(job=job, kind__startswith="log.").order_by("id").values_list("kind", flat=True))


def test_the_job_is_told_three_days_before_its_old_log_goes(cluster: Cluster) -> None:
    cluster.add_node()
    old, young, now = ended(cluster, "old", 40), ended(cluster, "young", 5), timezone.now()
    keep(30)
    for later in (0, 1, 2):
        retention.clean_up(now + timedelta(days=later))
    assert kinds(old) == ["log.expires"] and kinds(young) == []
    task = cluster.task(old)
    assert open_log(task, "stdout").view.size == 100
    reason = Event.objects.get(job=old, kind="log.expires").reason
    assert "virtual cluster default keeps logs for 30 days" in reason
    retention.clean_up(now + timedelta(days=3, minutes=1))
    assert kinds(old) == ["log.expires", "log.deleted"]
    with pytest.raises(NoLog, match="deleted on .*: virtual cluster default keeps logs for 30 days"):
        open_log(task, "stdout")
    names = [entry.name for entry in open_store().list(folder_of(task))]
    assert names == ["index.json"]
    assert open_log(cluster.task(young), "stdout").view.size == 100


def test_beyond_a_size_the_oldest_go_and_a_raised_limit_keeps_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_GIGABYTE", 150)
    cluster.add_node()
    old, young, now = ended(cluster, "old", 2), ended(cluster, "young", 1), timezone.now()
    keep(None, 1)
    retention.clean_up(now)
    assert (kinds(old), kinds(young)) == (["log.expires"], [])
    keep(None, None)
    retention.clean_up(now + timedelta(days=4))
    assert kinds(old) == ["log.expires", "log.stays"] and find_archive(place_of(cluster.task(old)))
    keep(None, 1)
    retention.clean_up(now + timedelta(days=5))
    retention.clean_up(now + timedelta(days=9))
    assert kinds(old)[-1] == "log.deleted" and kinds(young) == []
    assert Attempt.objects.get(job=young).log_bytes == 100


def test_a_log_of_before_sizes_were_noted_goes_by_its_age(cluster: Cluster) -> None:
    cluster.add_node()
    job = ended(cluster, "old", 9)
    Attempt.objects.filter(job=job).update(log_bytes=0)
    keep(7)
    retention.clean_up(timezone.now())
    assert kinds(job) == ["log.expires"]
