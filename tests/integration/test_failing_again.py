"""A job that fails in the same way again and again is tried again, but people are warned."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F

from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.nodes import refusals
from jobs.models import Attempt, Event
from jobs.planning.streak import LONGEST
from jobs.waiting.why import turn_of, waiting_reason
from tests.cluster import Cluster
from tests.fakes.host import Behaviour

AWAY = "registry.lab/a:1"


def tried(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        cluster.settle()
        cluster.ahead(LONGEST * 1.25)  # longer than any pause before a retry


def test_a_registry_that_is_away_is_told_in_the_reason_and_once_in_an_event(cluster: Cluster) -> None:
    fault = RuntimeFault("Registry registry.lab could not be reached.", reason=FaultReason.REGISTRY_UNREACHABLE)
    cluster.add_node().behave(Behaviour(pull_fault=fault), image=AWAY)
    refusals.write_images("n1", ["registry.lab/other:1"])
    job = cluster.submit(image=AWAY)
    tried(cluster, 1)
    first = waiting_reason(cluster.job(job), turn_of(job))
    assert first and first["summary"].startswith("Attempt 2 failed: Registry registry.lab could not be reached.")
    assert "job.failing" not in cluster.kinds(job)
    tried(cluster, 4)
    reason = waiting_reason(cluster.job(job), turn_of(job))
    assert reason and reason["blockers"][0]["kind"] == "failed"
    assert "attempts failed in the same way: Registry registry.lab could not be reached" in reason["summary"]
    (told,) = Event.objects.filter(job=job, kind="job.failing")
    assert told.reason.startswith("The last 3 attempts failed in the same way")
    assert told.reason.endswith("at pauses that grow to an hour, and ends with the 10th such failure.")


def test_after_ten_in_a_row_the_job_ends_and_says_so(cluster: Cluster) -> None:
    fault = RuntimeFault("Registry docker.io could not be reached.", reason=FaultReason.REGISTRY_UNREACHABLE)
    cluster.add_node().behave(Behaviour(pull_fault=fault))
    job = cluster.submit(image="docker.io/lab/a:1")
    tried(cluster, 12)
    ended = cluster.job(job)
    assert (ended.state, ended.exit_code, ended.attempt_number, ended.platform_retries) == ("FAILED", 193, 10, 9)
    assert cluster.attempts(job)[-1].exit["next"] == "Not tried again: the last 10 attempts ended in the same way."


def test_what_ran_for_a_day_before_does_not_count(cluster: Cluster) -> None:
    """The node of a job that trains for months may be lost every week."""
    cluster.add_node()
    job = cluster.submit()
    for _ in range(12):
        cluster.settle()
        Attempt.objects.filter(job=job).update(launched_at=F("launched_at") - timedelta(days=2))
        cluster.engines["n1"].vanish(cluster.task(job).container_name)
        cluster.settle()
        cluster.ahead(90)
    assert cluster.job(job).state in ("WAITING", "RUNNING") and cluster.job(job).platform_retries == 12
