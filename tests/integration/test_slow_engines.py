"""An engine under load is not a lost one, and what was killed half way leaves nothing on it."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from clusters.engines.runtime import LABEL_INSTANCE, LABEL_TASK, SLOW, ContainerRequest
from clusters.models import KeptImage, Node
from clusters.nodes import snapshots, trial
from jobs.models import Event
from jobs.rewind.services import snapshots_of
from tests.cluster import IMAGE, Cluster

pytestmark = pytest.mark.django_db
LOST = settings.NODE_LOST_AFTER


def test_a_slow_engine_is_given_longer_and_said_to_be_slow(cluster: Cluster) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    engine.slow_down()
    cluster.tick()
    cluster.ahead(LOST + 1)
    cluster.settle()
    node = Node.objects.get()
    assert cluster.task(job).state == "RUNNING" and "answers slowly" in node.health_reason
    engine.heal()
    cluster.settle()
    assert cluster.job(job).attempt_number == 1 and Node.objects.get().health == "ready"


def test_one_that_stays_slow_is_given_up_and_nobody_calls_that_certain(cluster: Cluster) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    engine.slow_down()
    cluster.tick()
    cluster.ahead(SLOW * LOST + 1)
    cluster.tick()
    exit_ = cluster.attempts(job)[0].exit["exit"]
    assert exit_["code"] == -7111 and exit_["certainty"] == "likely", exit_


def test_one_whose_host_is_away_too_is_lost_as_soon_as_before(cluster: Cluster) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    engine.slow_down()
    cluster.tick()
    engine.cut()
    cluster.tick()
    assert "answers slowly" not in Node.objects.get().health_reason
    cluster.ahead(LOST + 1)
    cluster.tick()
    assert cluster.attempts(job)[0].exit["exit"]["code"] == -7111


def test_an_order_that_was_carried_out_is_a_sign_of_life(cluster: Cluster) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.tick()
    engine.slow_down()
    cluster.tick()
    cluster.ahead(SLOW * LOST - 5)
    cluster.work()  # its worker was as slow
    cluster.tick()
    cluster.ahead(10)
    cluster.tick()
    assert cluster.task(job).state == "STARTING", "it began a moment ago"
    engine.heal()
    cluster.settle()
    assert cluster.task(job).state == "RUNNING" and cluster.job(job).attempt_number == 1
    assert not Event.objects.filter(kind="attempt.decided").exists()


def test_a_trial_that_was_killed_is_removed_by_the_second_survey_that_sees_it(cluster: Cluster) -> None:
    engine = cluster.add_node()
    labels = {LABEL_TASK: "trial", LABEL_INSTANCE: f"{settings.INSTANCE}-trial"}
    engine.ensure(ContainerRequest(name="t", image=IMAGE, argv=("true",), labels=labels))
    seen = trial.left_behind(engine, ())
    assert seen and engine.list(), "it may be under way"
    assert trial.left_behind(engine, seen) == frozenset() and not engine.list()


def test_a_worker_that_is_killed_while_it_keeps_a_container_leaves_no_image_without_a_row(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    name = cluster.task(job).container_name
    real = engine.keep

    def killed(*asked: Any) -> int:
        real(*asked)
        raise SystemExit

    monkeypatch.setattr(engine, "keep", killed)
    cluster.finish(job, 1)
    with pytest.raises(SystemExit):
        snapshots.keep("n1", name, username="alice", owner=cluster.task(job).pk, worth=set)
    row = KeptImage.objects.get()
    assert row.image in engine.images and not snapshots_of(cluster.job(job))
    KeptImage.objects.update(until=timezone.now())
    snapshots.clean_up(row.node)
    assert row.image not in engine.images and not KeptImage.objects.exists()
