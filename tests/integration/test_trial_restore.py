"""A portal that was restored from a backup beside the live one: the engines are the live one's, the rows are older."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client
from django_q.models import OrmQ

from base.hosts import predecessor
from base.models import User
from clusters.engines.runtime import LABEL_INSTANCE, LABEL_TASK, ContainerRequest
from jobs import services
from jobs.models import Event, Job, Task
from jobs.waiting.why import turn_of, waiting_reason
from portal.backup.after_restore import confirm_gone
from portal.shared.jobs.rows import job_url
from tests.cluster import IMAGE, Cluster

pytestmark = pytest.mark.django_db
MADE = "2026-11-26T20:00:00+00:00"


def restored(cluster: Cluster) -> None:
    """The rows are a backup's from here on, and another scheduler begins with them."""
    predecessor.remember(MADE)
    cluster.scheduler.restraint.learn()


def later_one() -> ContainerRequest:
    """The container of a job that the live portal took after the backup."""
    labels = {LABEL_TASK: "4711", LABEL_INSTANCE: settings.INSTANCE}
    return ContainerRequest(name="later", image=IMAGE, argv=("x",), labels=labels)


def test_the_copy_touches_nothing_of_the_live_one_until_an_admin_says_that_it_is_gone(cluster: Cluster) -> None:
    engine = cluster.add_node()
    goes_on, ends, stops = (cluster.submit(name=name) for name in ("goes-on", "ends", "stops"))
    cluster.settle()
    assert {task.state for task in Task.objects.all()} == {"RUNNING"}
    engine.ensure(later_one())
    restored(cluster)
    cluster.finish(ends, 0)
    services.stop(cluster.owner, stops)
    waiting = cluster.submit(name="waits")
    before = sorted((seen.name, seen.id, seen.phase) for seen in cluster.containers())

    for _ in range(4):
        cluster.ahead(600)
        assert (cluster.tick(), cluster.orders()) == (0, [])
        cluster.scheduler._routine_at = cluster.scheduler._expiry_at = 0.0
        cluster.scheduler._do_routine()
        assert OrmQ.objects.count() == 0

    assert sorted((seen.name, seen.id, seen.phase) for seen in cluster.containers()) == before
    assert not Event.objects.filter(kind="container.stranger").exists()
    assert {cluster.job(job).state for job in (goes_on, ends, stops)} == {"RUNNING"}
    assert Job.objects.get(pk=waiting.pk).state == "WAITING"

    assert confirm_gone()
    cluster.settle()
    cluster.ahead(31)
    cluster.settle()
    assert {name: cluster.job(job).state for name, job in (("ends", ends), ("stops", stops))} == {
        "ends": "SUCCEEDED",
        "stops": "STOPPED",
    }
    assert {cluster.job(job).state for job in (goes_on, waiting)} == {"RUNNING"}
    assert "later" not in [seen.name for seen in cluster.containers()], "what belongs to no row is removed in the end"
    assert len(cluster.attempts(goes_on)) == 1 and len(cluster.containers()) == 2


def test_whoever_waits_and_whoever_looks_at_the_nodes_is_told(
    cluster: Cluster, browse: Callable[[User | None], Client]
) -> None:
    pages = browse(cluster.owner)
    cluster.add_node()
    restored(cluster)
    job = cluster.submit(name="waits")
    cluster.tick()

    def text(path: str) -> str:
        return html.unescape(pages.get(path).content.decode())

    told = predecessor.sentence()
    assert MADE in told and predecessor.SAY in told
    assert waiting_reason(job, turn_of(job)) == {
        "summary": told,
        "blockers": [{"kind": "restored", "sentence": told}],
        "ahead": [],
    }
    assert told in text("/nodes") and predecessor.BRIEFLY in text("/jobs")
    assert predecessor.SAY in text(job_url(job.username, job.name))

    confirm_gone()
    assert waiting_reason(job, turn_of(job))["summary"] == "Nothing is in the way; it starts in a moment."
    assert predecessor.SAY not in text("/nodes") and predecessor.BRIEFLY not in text("/jobs")
