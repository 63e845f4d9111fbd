"""What a purged job had in the store goes, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django_q.models import OrmQ

from base.files.store import open_store
from base.files.store.base import PathNotFound
from jobs import services
from jobs.containers import discard
from jobs.containers.publish import publish_job
from jobs.models import Discarded, Job
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path


def ended(cluster: Cluster, name: str = "mnist") -> Job:
    """A job that has run, with an archived log."""
    job = cluster.submit(name=name)
    cluster.tick()
    cluster.work()
    cluster.tick()
    cluster.finish(job)
    cluster.settle()
    assert cluster.attempts(job)[0].app_id in names(f"{folder(cluster, name)}/log")
    return job


def purge(cluster: Cluster, job: Job) -> None:
    services.delete(cluster.owner, job)
    cluster.settle()
    assert not Job.objects.filter(pk=job.pk).exists()


def folder(cluster: Cluster, name: str = "mnist") -> str:
    user = cluster.owner.username
    return f"/Container/{user}/{user}~{name}"


def names(path: str) -> set[str]:
    try:
        return {entry.name for entry in open_store().list(path)}
    except PathNotFound:
        return set()


def discard_now() -> None:
    discard.discard_all(list(Discarded.objects.values_list("id", flat=True)))


def test_it_removes_everything_of_a_purged_job_but_its_output(cluster: Cluster) -> None:
    cluster.add_node()
    job, other = ended(cluster), ended(cluster, "other")
    purge(cluster, job)
    discard.order_due()
    row = OrmQ.objects.get()
    assert (row.func(), row.task["args"]) == ("jobs.containers.tasks.discard", ([Discarded.objects.get().pk],))
    discard_now()
    user = cluster.owner.username
    assert names(f"/Container/{user}") == {f"{user}~other"}
    assert names(f"{folder(cluster, 'other')}/log") == {cluster.attempts(other)[0].app_id}
    assert "mnist" in names(f"/Output/{user}")
    assert not Discarded.objects.exists()


def test_a_job_that_came_after_it_under_the_same_name_keeps_its_own(cluster: Cluster) -> None:
    cluster.add_node()
    job = ended(cluster)
    services.delete(cluster.owner, job)
    newer = ended(cluster)
    assert not Job.objects.filter(pk=job.pk).exists()
    discard_now()
    assert names(f"{folder(cluster)}/log") == {cluster.attempts(newer)[0].app_id}
    assert {"JobConfig.json", "ssh"} <= names(folder(cluster))


def test_files_that_users_put_there_stay(cluster: Cluster) -> None:
    cluster.add_node()
    job = ended(cluster)
    open_store().write(f"{folder(cluster)}/tmp/mine", [b"x"])
    purge(cluster, job)
    discard_now()
    assert names(folder(cluster)) == {"tmp"}
    assert not Discarded.objects.exists()


def test_a_store_that_is_down_delays_it(cluster: Cluster, settings: Any) -> None:
    cluster.add_node()
    job = ended(cluster)
    purge(cluster, job)
    settings.STORE_URL = "webhdfs://127.0.0.1:9"
    discard_now()
    assert Discarded.objects.count() == 1
    settings.STORE_URL = ""
    discard_now()
    discard_now()
    assert names(folder(cluster)) == set()
    assert not Discarded.objects.exists()


def test_a_job_of_that_name_that_comes_meanwhile_is_published_once_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for namesakes and the end of the removal."""
    cluster.add_node()
    purge(cluster, ended(cluster))
    came: list[Job] = []
    job_folder = discard.job_folder

    def comes_now(username: str, full_name: str) -> str:
        monkeypatch.setattr(discard, "job_folder", job_folder)
        came.append(cluster.submit(name="mnist"))
        assert publish_job(came[0].pk)
        return job_folder(username, full_name)

    monkeypatch.setattr(discard, "job_folder", comes_now)
    discard_now()
    assert cluster.job(came[0]).published_at is None
    assert publish_job(came[0].pk)
    assert {"JobConfig.json", "ssh"} <= names(folder(cluster))
