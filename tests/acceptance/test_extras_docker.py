"""What jobs ask for in their extras, on a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.acceptance.portal import Portal, config, container_of, docker
from tests.bed.docker_bed import BedNode
from tests.helpers import patience

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    yield shared_portal
    shared_portal.stop_all()
    shared_portal.wait_clean(docker_engine)


def test_a_chain_of_jobs_runs_one_after_the_other(portal: Portal, docker_engine: BedNode) -> None:
    portal.submit(config("first", "until [ -e /tmp/go ]; do sleep 0.1; done"))
    portal.submit(config("second", "exit 3", extras={"dependsOn": ["first"]}))
    portal.submit(config("third", "true", extras={"dependsOn": [{"job": "second", "after": "end"}]}))
    portal.submit(config("never", "true", extras={"dependsOn": ["second"]}))
    waits = portal.job("second")["jobStatus"]["waitingReason"]["blockers"][0]
    assert (waits["kind"], waits["job"]) == ("dependency", "admin~first")
    portal.wait_running("first")
    docker(docker_engine, "exec", container_of(docker_engine, "first"), "touch", "/tmp/go")
    assert [portal.wait_state(name)["state"] for name in ("first", "second", "third")] == [
        "SUCCEEDED",
        "FAILED",
        "SUCCEEDED",
    ]
    never = portal.wait_state("never")
    assert (never["state"], never["appExitCode"]) == ("FAILED", -7502)
    assert "admin/second had succeeded, but that job failed" in never["appExitDiagnostics"]
    assert _at(portal, "second", "job.placed") >= _at(portal, "first", "job.ended")
    waited = _at(portal, "second", "job.placed") - _at(portal, "first", "job.ended")
    assert waited.total_seconds() < 2 * patience(), "the end of the first one wakes the scheduler"


def test_a_job_goes_to_the_node_with_its_labels_or_says_which_one_lacks_them(portal: Portal) -> None:
    name = portal.get("/nodes")[0]["name"]
    portal.change_node(name, labels={"disk": "hdd"})
    portal.submit(config("ssd", "true", extras={"nodeLabels": {"disk": "ssd"}}))
    status = portal.wait_state("ssd")
    assert (status["state"], status["appExitCode"]) == ("FAILED", -7251)
    assert f"No registered node has the label disk=ssd: {name} has disk=hdd." in status["appExitDiagnostics"]
    portal.submit(config("hdd", "true", extras={"nodeLabels": {"disk": "hdd"}}))
    assert portal.wait_state("hdd")["state"] == "SUCCEEDED"


def _at(portal: Portal, name: str, kind: str) -> datetime:
    (at,) = [event["time"] for event in portal.events(name) if event["kind"] == kind]
    return datetime.fromtimestamp(at / 1000)
