"""What jobs ask for in their extras, on a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.acceptance.portal import Portal, config, container_of, docker, was_quick
from tests.bed.docker_bed import BedNode
from tests.helpers import until

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
    was_quick(waited.total_seconds(), 2, "the end of the first one wakes the scheduler")


def test_a_job_goes_to_the_node_with_its_labels_or_says_which_one_lacks_them(portal: Portal) -> None:
    name = portal.get("/nodes")[0]["name"]
    portal.change_node(name, labels={"disk": "hdd"})
    portal.submit(config("ssd", "true", extras={"nodeLabels": {"disk": "ssd"}}))
    status = portal.wait_state("ssd")
    assert (status["state"], status["appExitCode"]) == ("FAILED", -7251)
    assert f"No registered node has the label disk=ssd: {name} has disk=hdd." in status["appExitDiagnostics"]
    portal.submit(config("hdd", "true", extras={"nodeLabels": {"disk": "hdd"}}))
    assert portal.wait_state("hdd")["state"] == "SUCCEEDED"


def test_a_job_whose_port_is_taken_by_a_stranger_runs_at_its_second_attempt(
    portal: Portal, docker_engine: BedNode
) -> None:
    first, last = portal.get("/nodes")[0]["portRange"]
    portal.submit(config("before", "true"))
    portal.wait_state("before")
    mine = _ports(portal, "before", 1)
    next_jobs = min(first + (port - first + 7919) % (last - first + 1) for port in mine)
    listen = ["--network=host", "--entrypoint=/bin/busybox", "longshore/sample:1", "nc", "-l", "-p", str(next_jobs)]
    stranger = docker(docker_engine, "run", "-d", *listen).strip()
    try:
        until(lambda: f":{next_jobs} " in docker_engine.run("ss", "-ltn"), what="the stranger listens")
        portal.submit(config("beside-a-stranger", "true"))
        status = portal.wait_state("beside-a-stranger")
    finally:
        docker(docker_engine, "rm", "-f", stranger)
    assert (status["state"], status["retryDetails"]["platform"]) == ("SUCCEEDED", 1)
    assert next_jobs in _ports(portal, "beside-a-stranger", 1)
    assert not _ports(portal, "beside-a-stranger", 1) & _ports(portal, "beside-a-stranger", 2)
    told = [event["reason"] for event in portal.events("beside-a-stranger")]
    assert any("in use on its node by something outside Longshore" in reason for reason in told)


def test_a_mistyped_registry_ends_its_job_after_three_tries_and_paints_no_node(
    portal: Portal, docker_engine: BedNode
) -> None:
    """Nothing listens on port 9 of the host."""
    portal.submit(config("mistyped", image=f"{docker_engine.address}:9/team/image:1"))
    status = portal.wait_state("mistyped")
    assert (status["state"], status["retryDetails"]["platform"], status["appExitCode"]) == ("FAILED", 2, 255)
    assert any("No node has ever got an image from" in event["reason"] for event in portal.events("mistyped"))
    assert "pull" not in [mark["kind"] for mark in portal.get("/nodes")[0]["marks"]]


def _ports(portal: Portal, name: str, attempt: int) -> set[int]:
    ports = portal.task(name, attempt=attempt)["containerPorts"]
    return {int(port) for some in ports.values() for port in str(some).split(",")}


def _at(portal: Portal, name: str, kind: str) -> datetime:
    (at,) = [event["time"] for event in portal.events(name) if event["kind"] == kind]
    return datetime.fromtimestamp(at / 1000)
