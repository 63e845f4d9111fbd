"""``manage.py check_cluster`` on real hosts, one of which drops what comes to its ports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.acceptance.portal import ROOT, Portal, containers, portal_beside
from tests.bed.docker_bed import Bed, BedNode
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker
DROP = ("INPUT", "-p", "tcp", "--dport", "30000:39999", "-j", "DROP")


@pytest.fixture(scope="module")
def portal(bed: Bed, docker_nodes: list[BedNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    home = tmp_path_factory.mktemp("portal")
    with portal_beside(*docker_nodes, home=home) as one:
        for node in docker_nodes:
            until(lambda node=node: tells_of_gpus(one, node), every=1, what="the engine tells of its GPUs")  # type: ignore[misc]
        one.wait_ready()
        yield one


def tells_of_gpus(portal: Portal, node: BedNode) -> bool:
    """A busy engine does not within the seconds that it is given: then the node is registered again."""
    made = portal.add_node(node, cpuNumber=4)
    told = bool(made["resourcesTotal"]["GPUs"] == 4)
    if not told:
        assert portal.http.delete(f"/nodes/{node.name}").status_code == 200
    return told


def check(portal: Portal, *arguments: str) -> subprocess.Popen[str]:
    seconds = ("--seconds", f"{LIMIT:.0f}")
    command = [sys.executable, str(ROOT / "manage.py"), "check_cluster", *seconds, *arguments]
    return subprocess.Popen(
        command, env=portal.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_all_nodes_work_and_nothing_is_left(portal: Portal, docker_nodes: list[BedNode]) -> None:
    done = check(portal)
    told, errors = done.communicate(timeout=2 * LIMIT)
    assert done.returncode == 0, (told, errors)
    assert "3 of 3 nodes work." in told
    portal.wait_clean(*docker_nodes)


def test_a_node_behind_a_firewall_is_told_with_what_to_do(portal: Portal, docker_nodes: list[BedNode]) -> None:
    broken = docker_nodes[1]
    broken.run("iptables", "-I", *DROP)
    try:
        done = check(portal, "--json")
        told, errors = done.communicate(timeout=2 * LIMIT)
    finally:
        broken.run("iptables", "-D", *DROP)
    assert done.returncode == 1, (told, errors)
    rows = {row["node"]: row for row in json.loads(told)}
    assert [name for name, row in rows.items() if not row["works"]] == [broken.name], rows
    assert rows[broken.name]["ports"] == "failed"
    assert "Open the node's port range" in rows[broken.name]["says"][0]


def test_it_cleans_up_when_it_is_interrupted(portal: Portal, docker_nodes: list[BedNode]) -> None:
    begun = check(portal)
    until(lambda: any(containers(node, portal) for node in docker_nodes), 60, 0.2, what="its jobs run")
    begun.send_signal(signal.SIGTERM)
    begun.communicate(timeout=LIMIT)
    assert begun.returncode == 143
    portal.wait_clean(*docker_nodes)
    assert [job for job in portal.get("/jobs") if job["name"].startswith("check-cluster-")] == []
