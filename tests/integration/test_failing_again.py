"""A job that fails in the same way again and again is tried again, but people are warned."""

from __future__ import annotations

from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.nodes import refusals
from jobs.models import Event
from jobs.waiting.why import turn_of, waiting_reason
from tests.cluster import Cluster
from tests.fakes.host import Behaviour

AWAY = "registry.lab/a:1"


def tried(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        cluster.settle()
        cluster.ahead(90)  # longer than any pause before a retry


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
    assert told.reason.endswith("The job is tried again without end, until somebody stops it.")
