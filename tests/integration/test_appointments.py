"""Appointments in a whole cluster: who starts, who leaves when one begins, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from base.models import User
from clusters.appointments import services
from clusters.engines import schemes
from clusters.models import Appointment
from jobs.waiting.queue import turn_now
from tests.cluster import Clock, Cluster

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(alice: User) -> Iterator[Cluster]:
    cluster = Cluster(alice, Clock())
    cluster.add_node("n1", gpus=2)
    yield cluster
    schemes.set_engine_factory(None)


def appoint(admin: User, begin: float = 0, **values: Any) -> Appointment:
    """From so many seconds from now on for an hour."""
    start = timezone.now() + timedelta(seconds=begin)
    given = {"title": "firmware", "nodes": ["n1"], "begin": start, "end": start + timedelta(hours=1), **values}
    return services.write(admin, given)


def test_a_job_that_runs_leaves_once_and_comes_back_when_it_is_over(cluster: Cluster, admin: User) -> None:
    job = cluster.submit(name="train")
    cluster.settle()
    row = appoint(admin)
    for _ in range(3):
        cluster.settle()
        cluster.ahead(60)
    assert cluster.job(job).state == "WAITING"
    assert (cluster.job(job).user_retries, cluster.attempts(job)[0].exit_code) == (0, -7120)
    assert len([attempt for attempt in cluster.attempts(job) if attempt.exit_code == -7120]) == 1
    services.delete(admin, row.pk)
    cluster.settle()
    assert cluster.task(job).node == "n1"


def test_nothing_starts_that_would_run_into_it(cluster: Cluster, admin: User) -> None:
    appoint(admin, 1800)
    long = cluster.submit(name="long")
    short = cluster.submit(name="short", extras={"maxRunSeconds": 600})
    cluster.settle()
    assert (cluster.job(long).state, cluster.job(short).state) == ("WAITING", "RUNNING")
    turn = turn_now(long.pk)
    assert turn is not None and turn.blockers[0].kind == "appointment"
    assert " by an appointment. " in turn.blockers[0].sentence


def test_a_change_while_it_runs_counts_at_once(cluster: Cluster, admin: User) -> None:
    row = appoint(admin, username="alice")
    job = cluster.submit(name="train")
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    services.write(admin, {"username": ""}, row.pk)
    cluster.settle()
    assert cluster.attempts(job)[0].exit_code == -7120


def test_a_node_that_is_not_there_withholds_nothing(cluster: Cluster, admin: User) -> None:
    Appointment.objects.filter(pk=appoint(admin).pk).update(nodes=["n9"])
    job = cluster.submit(name="train")
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
