"""A job in plain shell on two real engines: whatever ends it, it goes on elsewhere at the very next step."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.portal import ENDS, ROOT, Portal, config, portal_beside
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker
IMAGE = "longshore-test/curl:1"
PROGRAM = (ROOT / "docs/examples/code/resume.sh").read_text()
NOTICE = {"graceSeconds": 300, "notice": {"signal": "SIGUSR1", "seconds": 290}}


def with_curl(node: BedNode) -> None:
    """The node has an image of busybox and this machine's curl."""
    tools = {name: Path(shutil.which(name) or pytest.skip(f"{name} is not installed")) for name in ("busybox", "curl")}
    linked = subprocess.run(["ldd", tools["curl"]], check=True, capture_output=True, text=True).stdout
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w", dereference=True) as tar:
        for name, path in tools.items():
            tar.add(path, f"bin/{name}")
        for library in re.findall(r"(/\S+) \(0x", linked):
            tar.add(library, library.lstrip("/"))
        for folder in ("etc", "work", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
        for applet in ("sh", "cat", "tr", "sed", "sleep", "mkdir", "echo", "date"):
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    command = ["docker", "-H", node.unix, "import", "--change", "WORKDIR /work", "-", IMAGE]
    subprocess.run(command, input=spool.getvalue(), check=True, capture_output=True)


@pytest.fixture(scope="module")
def portal(docker_nodes: list[BedNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    nodes = docker_nodes[:2]
    address = f"{nodes[0].bed.network}.1"  # of the bed's bridge: containers reach the store there
    with portal_beside(*nodes, home=tmp_path_factory.mktemp("portal"), address=address) as one:
        for at, node in enumerate(nodes):
            with_curl(node)
            one.add_node(node, name=f"n{at}", cpuNumber=8)
        answer = one.http.put("/virtual-clusters/patient", json={"vcCapacity": 50, "graceSeconds": 300})
        assert answer.status_code == 201, answer.text
        yield one
        one.stop_all()
        until(lambda: not [each for each in one.get("/jobs") if each["state"] not in ENDS], 60, 0.2, what="all ended")
        one.wait_clean(*nodes)


def submit(portal: Portal, name: str, folder: str, steps: int = 100_000) -> str:
    command = f"cat >resume.sh <<'END'\n{PROGRAM}END\nsh resume.sh {steps} {folder}"
    more = {"image": IMAGE, "virtualCluster": "patient", "extras": NOTICE}
    return portal.submit(config(name, command, **more))


def goes(portal: Portal, name: str, attempt: int = 1) -> None:
    portal.wait_running(name, timeout=LIMIT)
    until(lambda: "\nstep " in portal.log(name, attempt=attempt), LIMIT, 0.1, what="it has done a step")


def steps_of(log: str) -> list[int]:
    return [int(step) for step in re.findall(r"^step (\d+)$", log, re.MULTILINE)]


def test_a_drained_job_saves_leaves_and_goes_on_elsewhere_at_the_very_next_step(portal: Portal) -> None:
    name = submit(portal, "drained", "drained")
    goes(portal, name)
    first = portal.task(name)["nodeName"]
    assert portal.http.put(f"/nodes/{first}/status", json={"nodeStatus": "draining"}).status_code == 200
    try:
        until(lambda: len(portal.attempts(name)) == 2, LIMIT, 0.2, what="its second attempt")
        goes(portal, name, 2)
        told, then = portal.log(name, attempt=1), portal.log(name, attempt=2)
        assert f"told to end: Node {first} is being drained." in told and told.rstrip().splitlines()[-1] == (
            f"saved step {steps_of(told)[-1]}"
        )
        assert then.startswith("attempt 2; the last one: evicted\n")
        assert steps_of(then)[0] == steps_of(told)[-1] + 1, "none is lost, none is done twice"
        assert portal.task(name)["nodeName"] != first
        assert portal.job(name)["jobStatus"]["retryDetails"]["user"] == 0
    finally:
        portal.http.put(f"/nodes/{first}/status", json={"nodeStatus": "active"})
        portal.stop(name)


def test_a_stopped_job_saves_and_another_one_goes_on_from_there(portal: Portal) -> None:
    name = submit(portal, "stopped", "stopped")
    goes(portal, name)
    portal.stop(name)
    assert portal.wait_state(name, timeout=LIMIT)["state"] == "STOPPED"
    told = portal.log(name)
    assert "told to end: Stopped by admin." in told
    done = steps_of(told)[-1]
    again = submit(portal, "again", "stopped", done + 3)
    assert portal.wait_state(again, timeout=LIMIT)["state"] == "SUCCEEDED"
    assert steps_of(portal.log(again)) == [done + 1, done + 2, done + 3]


def test_what_has_saved_and_goes_on_all_the_same_is_ended_without_the_rest_of_its_grace(portal: Portal) -> None:
    command = (
        "trap : USR1 TERM; : >$LONGSHORE_SAVED_FILE; echo ready; "
        "until [ -s $LONGSHORE_NOTICE_FILE ]; do sleep 0.1; done; "
        ": >$LONGSHORE_SAVED_FILE; echo saved; while :; do sleep 0.1; done"
    )
    name = portal.submit(config("deaf", command, image=IMAGE, virtualCluster="patient", extras=NOTICE))
    portal.wait_running(name, timeout=LIMIT)
    until(lambda: portal.log(name) == "ready\n", LIMIT, 0.1, what="it runs")
    until(lambda: portal.job(name)["jobStatus"].get("savedTime"), LIMIT, 0.5, what="it is known to have saved")
    portal.stop(name)
    until(lambda: "saved" in portal.log(name), LIMIT, 0.1, what="it has saved")
    task = portal.task(name)
    assert task["endsBy"] - task["toldTime"] == 300_000
    assert portal.wait_state(name, timeout=120)["state"] == "STOPPED", "long before its 300 seconds are over"
