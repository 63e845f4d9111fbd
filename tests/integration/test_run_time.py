"""``extras.maxRunSeconds``: an attempt that runs for longer ends, whatever happens to the clock of the day."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.models import Job
from jobs.scheduling.load import WorldLoader
from tests.cluster import Cluster


@pytest.fixture
def limited(cluster: Cluster) -> Job:
    """A job that runs and may for 100 seconds."""
    cluster.add_node()
    job = cluster.submit(retryCount=-2, extras={"maxRunSeconds": 100})
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    return job


def test_it_ends_with_its_own_exit_and_is_not_tried_again(cluster: Cluster, limited: Job) -> None:
    cluster.ahead(101)
    cluster.settle()
    ended = cluster.job(limited)
    assert (ended.state, ended.exit_code, ended.attempt_number) == ("FAILED", -7501, 1)
    [attempt] = cluster.attempts(limited)
    assert attempt.exit["reason"] == "The job ran for 1 min 40 s, which is all that its maxRunSeconds allow."
    cluster.settle()
    cluster.assert_clean()


def test_it_runs_until_then(cluster: Cluster, limited: Job) -> None:
    cluster.ahead(90)
    cluster.settle()
    assert cluster.job(limited).state == "RUNNING"
    assert cluster.scheduler.again_at is not None, "time alone ends it, at a moment that is known"


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_is_set_ends_nothing_and_lengthens_nothing(cluster: Cluster, limited: Job, hours: int) -> None:
    cluster.clock.set = timedelta(hours=hours)
    Job.objects.update(priority=1, changed_at=cluster.clock.now())  # so that the row is read again
    cluster.ahead(90)
    cluster.settle()
    assert cluster.job(limited).state == "RUNNING"
    cluster.ahead(11)
    cluster.settle()
    assert cluster.job(limited).state == "FAILED"


def test_another_scheduler_knows_how_long_it_has_run(cluster: Cluster, limited: Job) -> None:
    cluster.ahead(60)
    cluster.scheduler._loader = WorldLoader()
    cluster.settle()
    assert cluster.job(limited).state == "RUNNING"
    cluster.ahead(41)
    cluster.settle()
    assert cluster.job(limited).state == "FAILED"


def test_each_attempt_has_the_whole_time(cluster: Cluster, limited: Job) -> None:
    cluster.ahead(90)
    cluster.finish(limited, 1)
    cluster.settle()
    cluster.ahead(90)
    cluster.settle()
    again = cluster.job(limited)
    assert (again.state, again.attempt_number) == ("RUNNING", 2)
