"""A failed task's container is kept as an image and opened again, as a job of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from base.core.errors import Forbidden, NotFound
from base.models import User
from clusters.engines import schemes
from clusters.engines.image_names import SNAPSHOTS
from clusters.models import KeptImage, Node
from clusters.nodes import snapshots
from jobs import admission, services
from jobs.config.spec import read_config
from jobs.models import Event, Job
from jobs.planning.lifecycle import JobState
from jobs.rewind.services import reopen, snapshots_of
from tests.cluster import IMAGE, Clock, Cluster, config

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(alice: User) -> Any:
    """Two nodes with GPUs."""
    cluster = Cluster(alice, Clock())
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=4)
    yield cluster
    schemes.set_engine_factory(None)


@pytest.fixture
def failed(cluster: Cluster) -> Job:
    """alice/train, whose task failed on its node."""
    values = {"jobEnvs": {"isDebug": False, "COLOUR": "blue"}, "extras": {"secrets": {"KEY": "a secret"}}}
    job = cluster.submit(name="train", roles=[{"gpuNumber": 2, "cpuNumber": 3, "memoryMB": 500}], **values)
    cluster.settle()
    cluster.finish(job, 1)
    cluster.settle()
    return cluster.job(job)


def test_a_failed_task_is_kept_as_an_image_on_its_node(cluster: Cluster, failed: Job) -> None:
    assert failed.state == JobState.FAILED and not cluster.containers()
    (one,) = snapshots_of(failed)
    assert (one.label, one.image.node.name, one.image.username) == ("worker-0", one.task.node, "alice")
    assert one.image.image in cluster.engines[one.task.node].images


def test_it_is_opened_again_on_its_node_with_what_it_had(cluster: Cluster, alice: User, failed: Job) -> None:
    (one,) = snapshots_of(failed)
    made = reopen(alice, failed)
    cluster.settle()
    task = cluster.task(made)
    assert (task.state, task.node, len(task.gpu_ids)) == ("RUNNING", one.task.node, 2)
    asked = cluster.engines[task.node].request_of(task.container_name)
    assert (asked.image, asked.cpus, asked.memory_mb) == (one.image.image, 3, 500)
    assert asked.env["COLOUR"] == "blue"
    assert any(b"a secret" in file.content for file in asked.files)
    assert cluster.allocated() == 1
    said = Event.objects.get(kind="task.reopened").reason
    assert said == f"alice opened worker-0 of attempt 1 again, as job {made.name}."


def test_it_waits_for_its_own_node(cluster: Cluster, alice: User, failed: Job) -> None:
    node = snapshots_of(failed)[0].task.node
    Node.objects.filter(name=node).update(status=Node.Status.CORDONED)
    made = reopen(alice, failed)
    cluster.settle()
    assert cluster.job(made).state == JobState.WAITING


def test_nobody_starts_the_image_of_somebody_else(cluster: Cluster, bob: User, admin: User, failed: Job) -> None:
    image = snapshots_of(failed)[0].image.image
    for written in (image, image.replace(":", "@sha256:")):
        with pytest.raises(Forbidden):
            services.submit(bob, config("steal").replace(IMAGE, written))
    with pytest.raises(Forbidden):
        reopen(bob, failed)
    assert reopen(admin, failed).username == "admin"
    KeptImage.objects.update(until=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Forbidden):
        services.submit(admin, config("late").replace(IMAGE, image))


def test_no_job_of_a_sweep_has_the_image_of_somebody_else(cluster: Cluster, bob: User, failed: Job) -> None:
    image = snapshots_of(failed)[0].image.image
    text = config("steal").replace(IMAGE, "${image}")
    mine, its = (read_config(text.replace("${image}", one)) for one in (IMAGE, image))
    assert admission.asks(mine) != admission.asks(its)


def test_what_succeeded_or_was_stopped_is_not_kept(cluster: Cluster, alice: User) -> None:
    for name, end in (("good", lambda job: cluster.finish(job, 0)), ("stopped", lambda job: services.stop(alice, job))):
        job = cluster.submit(name=name)
        cluster.settle()
        end(job)
        cluster.settle()
    assert not KeptImage.objects.exists()


def test_one_that_has_written_too_much_is_not_kept(cluster: Cluster, settings: Any) -> None:
    settings.REWIND_MB = 0
    job = cluster.submit(name="large")
    cluster.settle()
    cluster.finish(job, 1)
    cluster.settle()
    assert not KeptImage.objects.exists() and not cluster.containers()


def test_its_time_ends_and_the_image_goes(cluster: Cluster, alice: User, failed: Job) -> None:
    (one,) = snapshots_of(failed)
    KeptImage.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert not snapshots_of(failed)
    with pytest.raises(NotFound):
        reopen(alice, failed)
    engine = cluster.engines[one.task.node]
    engine.cut()
    snapshots.clean_up(one.image.node)
    assert KeptImage.objects.exists()
    engine.heal()
    snapshots.clean_up(one.image.node)
    assert not KeptImage.objects.exists() and one.image.image not in engine.images


def test_a_user_has_so_many_and_the_oldest_goes(cluster: Cluster, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST", 1)
    jobs = []
    for name in ("first", "second"):
        jobs.append(cluster.submit(name=name))
        cluster.settle()
        cluster.finish(jobs[-1], 1)
        cluster.settle()
    assert [len(snapshots_of(job)) for job in jobs] == [0, 1]


def test_the_api_lists_what_is_kept_and_opens_it(
    cluster: Cluster, alice: User, bob: User, failed: Job, api: Callable[[User | None], Any]
) -> None:
    path = "/api/v1/user/alice/jobs/train/rewind"
    (one,) = api(alice).get(path).json()["kept"]
    assert (one["task"], one["attempt"]) == ("worker-0", 1) and one["until"]
    assert "image" not in one
    assert api(bob).post(path).status_code == 403
    assert api(alice).post(path, {"task": "worker-7"}, format="json").status_code == 404
    assert api(alice).post(path, {"task": 1}, format="json").status_code == 400
    answer = api(alice).post(path, {"task": "worker-0"}, format="json")
    assert answer.status_code == 201 and answer.json()["name"].startswith("train-rewind")


def test_the_page_has_a_button_for_who_may(
    cluster: Cluster, alice: User, bob: User, failed: Job, browse: Callable[[User | None], Any]
) -> None:
    assert b"Look inside" in browse(alice).get("/jobs/alice/train").content
    assert b"Look inside" not in browse(bob).get("/jobs/alice/train").content
    answer = browse(alice).post("/jobs/alice/train/rewind", {"task": "worker-0", "attempt": "1"})
    assert answer.status_code == 302 and answer.url.endswith("/terminal")
    page = browse(alice).get(answer.url).content.decode()
    assert "Its task has not started yet" in page
    assert browse(alice).get(f"{answer.url}/ready").headers.get("HX-Refresh") is None
    cluster.settle()
    assert browse(alice).get(f"{answer.url}/ready")["HX-Refresh"] == "true"


def test_failures_by_the_cluster_push_no_own_failure_out(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST", 2)
    jobs, engines = [], cluster.engines.values()
    for name, code in (("killed", 137), ("mine", 1), ("killed-2", 137), ("other", 3), ("killed-3", 137)):
        jobs.append(cluster.submit(name=name))
        cluster.settle()
        cluster.finish(jobs[-1], code)
        cluster.settle()
    assert [bool(snapshots_of(job)) for job in jobs] == [False, True, False, True, False]
    for node in Node.objects.all():
        snapshots.clean_up(node)
    assert KeptImage.objects.count() == 2
    assert sum(name.startswith(SNAPSHOTS) for engine in engines for name in engine.images) <= 2


def test_the_newest_of_own_failures_stay(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST", 2)
    jobs = []
    for name in ("a", "b", "c"):
        jobs.append(cluster.submit(name=name))
        cluster.settle()
        cluster.finish(jobs[-1], 1)
        cluster.settle()
    assert [bool(snapshots_of(job)) for job in jobs] == [False, True, True]
