"""Draining a node: what its page says would happen is what happens, and it can be taken back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from base.models import User
from clusters.engines import schemes
from clusters.nodes import services
from portal.nodes.drain import drain_page
from tests.cluster import Clock, Cluster

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(alice: User) -> Iterator[Cluster]:
    cluster = Cluster(alice, Clock())
    cluster.add_node("n1", gpus=2)
    yield cluster
    schemes.set_engine_factory(None)


def test_jobs_go_where_the_page_said_and_the_node_is_empty(cluster: Cluster, admin: User) -> None:
    job = cluster.submit(name="train")
    cluster.settle()
    cluster.add_node("n2", gpus=2)
    (affected,) = drain_page("n1", admin)["affected"]
    assert affected.goes == ("n2",)
    services.set_node_status(admin, "n1", {"nodeStatus": "draining"})
    cluster.settle()
    cluster.settle()
    assert cluster.task(job).node == "n2"
    assert (cluster.job(job).user_retries, cluster.attempts(job)[0].exit_code) == (0, -7120)
    page = drain_page("n1", admin)
    assert (page["is_draining"], page["is_empty"], page["affected"]) == (True, True, [])


def test_a_job_that_would_wait_waits_and_comes_back_when_the_node_is_offered_again(
    cluster: Cluster, admin: User
) -> None:
    job = cluster.submit(name="train")
    cluster.settle()
    (affected,) = drain_page("n1", admin)["affected"]
    assert (affected.goes, bool(affected.why)) == ((), True)
    services.set_node_status(admin, "n1", {"nodeStatus": "draining"})
    cluster.settle()
    assert cluster.job(job).state == "WAITING"
    services.set_node_status(admin, "n1", {"nodeStatus": "active"})
    cluster.ahead(60)
    cluster.settle()
    assert cluster.task(job).node == "n1"
