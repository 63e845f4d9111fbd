"""Registering real hosts: they get the sample image, and what they promise is tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.portal import Json, Portal, config, docker, portal_beside, register
from tests.bed.docker_bed import Bed, BedNode
from tests.helpers import until

pytestmark = pytest.mark.docker
IMAGE = "longshore/sample:1"


@pytest.fixture(scope="module")
def hosts(bed: Bed, docker_engine: BedNode, docker_nodes: list[BedNode]) -> list[BedNode]:
    """The first has no GPU."""
    return [docker_engine, docker_nodes[0]]


@pytest.fixture
def portal(bed: Bed, hosts: list[BedNode], tmp_path: Path) -> Iterator[Portal]:
    """Its address is the default one, which no other host reaches."""
    with portal_beside(*hosts, home=tmp_path, HOME=str(bed.folder / "home")) as one:
        yield one


def add(portal: Portal, host: BedNode, **more: object) -> None:
    keys = {key: (host.tls_dir / f"{key}.pem").read_text() for key in ("ca", "cert", "key")}
    body = {"name": host.name, "endpoint": host.tls, "tls": keys, "cpuNumber": 4, **more}
    register(portal.http, body)


def marks(portal: Portal, host: BedNode) -> list[Json]:
    """Once it has any. What a busy engine does not tell while it is registered, a survey finds out later on."""
    return until(lambda: list(portal.node(host.name)["marks"]), 400, 0.5, f"marks of {host.name}")


def test_hello_world_runs_on_every_node_that_was_registered(portal: Portal, hosts: list[BedNode]) -> None:
    for host in hosts:
        docker(host, "image", "rm", "--force", IMAGE)
        add(portal, host)
    name = portal.submit(config("hello", "echo hello", taskNumber=8, minSucceededTaskCount=8))
    assert portal.wait_state(name, timeout=90)["state"] == "SUCCEEDED", portal.events(name)
    nodes = {portal.task(name, index=index)["nodeName"] for index in range(8)}
    assert (nodes, len(portal.attempts(name))) == ({host.name for host in hosts}, 1)


def test_a_host_without_the_gpus_it_promises_is_told_and_spared(portal: Portal, hosts: list[BedNode]) -> None:
    add(portal, hosts[0], gpuNumber=8, gpuType="A100")
    until(lambda: "gpus" in [mark["kind"] for mark in marks(portal, hosts[0])], 400, 0.5, "the mark of its GPUs")
    (mark,) = [mark for mark in marks(portal, hosts[0]) if mark["kind"] == "gpus"]
    assert mark["sentence"].startswith(f"Node {hosts[0].name} cannot hand out its 8 GPUs: ")
    waits = portal.submit(config("gpu", gpuNumber=1))
    runs = portal.submit(config("cpu"))
    assert portal.wait_state(runs, timeout=60)["state"] == "SUCCEEDED"
    reason = portal.job(waits)["jobStatus"]["waitingReason"]
    assert (reason["summary"], reason["blockers"][0]["kind"]) == (mark["sentence"], "marked")
    assert len(portal.attempts(waits)) == 1
    add(portal, hosts[1], gpuNumber=4)
    assert portal.wait_state(waits, timeout=60)["state"] == "SUCCEEDED"


def test_a_host_that_does_not_reach_the_portal_is_told_what_to_set(portal: Portal, hosts: list[BedNode]) -> None:
    add(portal, hosts[0])
    (mark,) = marks(portal, hosts[0])
    assert mark["kind"] == "portal"
    assert "Connection refused. Jobs there get no files. Set LONGSHORE_BIND" in mark["sentence"]
    assert portal.wait_state(portal.submit(config("still-runs")), timeout=60)["state"] == "SUCCEEDED"


def test_a_host_that_reaches_the_portal_has_no_mark(bed: Bed, hosts: list[BedNode], tmp_path: Path) -> None:
    address = f"{bed.network}.1"  # the bed's bridge is an address of this host
    with portal_beside(*hosts, home=tmp_path, address=address, HOME=str(bed.folder / "home")) as portal:
        add(portal, hosts[0])
        until(lambda: portal.node(hosts[0].name)["marks"] == [], 400, 0.5, "no mark")
