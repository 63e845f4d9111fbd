"""Three hosts, one for each way to an engine: gangs across them, and one that is cut off or loses its dockerd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from clusters.engines.runtime import LABEL_INSTANCE
from tests.acceptance.portal import (
    ENDS,
    Portal,
    config,
    container_of,
    containers,
    docker,
    free_port,
    portal_beside,
)
from tests.acceptance.witness import times, witness
from tests.bed.docker_bed import Bed, BedNode
from tests.helpers import until

pytestmark = pytest.mark.docker
GPUS = 4
ANY = [[1024, 65_535]]
FOREVER = "echo ready; while :; do sleep 1; done"
GANG = """
mkdir /tmp/www
echo "greetings from $PAI_TASK_INDEX" > /tmp/www/greeting
port=$PAI_CONTAINER_HOST_web_PORT_LIST
httpd -h /tmp/www -p $port
fetch() { eval "host=\\$PAI_HOST_IP_main_$1"; until wget -q -O - http://$host:$port/$2; do sleep 0.2; done; }
for peer in 0 1 2; do fetch $peer greeting; done
echo "$PAI_TASK_INDEX has seen all" > /tmp/www/done
[ "$PAI_TASK_INDEX" = 0 ] || exec sleep 600
for peer in 1 2; do fetch $peer done; done
"""


@pytest.fixture(scope="module")
def nodes(docker_nodes: list[BedNode]) -> dict[str, BedNode]:
    """By the way in which the portal reaches them."""
    return dict(zip(("unix", "tls", "ssh"), docker_nodes, strict=True))


@pytest.fixture(scope="module")
def portal(bed: Bed, nodes: dict[str, BedNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    home = tmp_path_factory.mktemp("portal")
    settings = {"HOME": str(bed.folder / "home"), "LONGSHORE_NODE_LOST_AFTER": "20"}
    with portal_beside(*nodes.values(), home=home, **settings) as one:
        register(one, nodes)
        yield one
        one.wait_clean(*nodes.values())


@pytest.fixture(autouse=True)
def nothing_left(portal: Portal) -> Iterator[None]:
    yield
    portal.stop_all()
    until(lambda: not [job for job in portal.get("/jobs") if job["state"] not in ENDS], 40, 0.2, what="all have ended")


def register(portal: Portal, nodes: dict[str, BedNode]) -> None:
    for way, node in nodes.items():
        portal.add_node(node, way, name=way, gpuNumber=GPUS, cpuNumber=4, fixedPorts=ANY)
    portal.wait_ready()


def has_run(portal: Portal, name: str) -> bool:
    moves = [(event["from"], event["to"]) for event in portal.events(name) if event["kind"] == "task.state"]
    return any("STARTING" in move[:1] for move in moves)


def only(portal: Portal, *offered: str) -> None:
    """New tasks go to these nodes alone."""
    for way in ("unix", "tls", "ssh"):
        status = "active" if way in offered else "cordoned"
        assert portal.http.put(f"/nodes/{way}/status", json={"nodeStatus": status}).status_code == 200


def test_a_gang_with_a_fixed_port_spreads_and_talks_across_the_nodes(portal: Portal) -> None:
    only(portal, "unix", "tls", "ssh")
    ports = [{"label": "web", "beginAt": free_port(), "portNumber": 1}]
    sent = config("spread", GANG, taskNumber=3, portList=ports, minSucceededTaskCount=1)
    name = portal.submit(sent)
    assert portal.wait_state(name, timeout=60)["state"] == "SUCCEEDED", portal.events(name)
    assert {portal.task(name, index=index)["nodeName"] for index in range(3)} == {"unix", "tls", "ssh"}
    greetings = "".join(f"greetings from {index}\n" for index in range(3))
    assert portal.log(name) == f"{greetings}1 has seen all\n2 has seen all\n"
    assert [portal.log(name, index=index) for index in (1, 2)] == [greetings] * 2


@pytest.mark.parametrize(("way", "fault", "cure"), [("ssh", "cut", "heal"), ("tls", "freeze", "thaw")])
def test_a_job_goes_on_elsewhere_when_its_node_is_silent(
    portal: Portal, nodes: dict[str, BedNode], way: str, fault: str, cure: str
) -> None:
    """And when the node is back, what still runs there keeps its GPUs until it is gone."""
    only(portal, way)
    cut, name, second = nodes[way], f"{fault}-{way}", f"after-{fault}-{way}"
    portal.submit(config(name, FOREVER, gpuNumber=GPUS))
    portal.wait_running(name)
    old = container_of(cut, name)
    only(portal, way, "unix")
    with witness(cut, portal) as seen:
        cut.fault(fault)
        try:
            until(
                lambda: portal.job(name)["jobStatus"]["retryDetails"]["platform"] == 1, 120, 0.2, what="it is retried"
            )
            until(lambda: portal.task(name, attempt=2)["taskState"] == "RUNNING", 30, 0.2, what="it runs elsewhere")
            assert portal.task(name)["nodeName"] == "unix"
            assert portal.attempts(name)[-1]["appExitCode"] == -7111
            assert portal.node(way)["health"] == "unreachable"
            portal.submit(config(second, f"ls /dev/nvidia*; {FOREVER}", gpuNumber=GPUS))
            assert portal.state(second) == "WAITING"
        finally:
            cut.fault(cure)
        assert portal.wait_running(second, timeout=60)["nodeName"] == way
        assert old not in containers(cut, portal)
        new = container_of(cut, second)
        until(lambda: times(seen(), "start").get(new), what="the witness has told of the start")
        assert max(times(seen(), "die")[old]) < min(times(seen(), "start")[new])
    assert portal.log(name, attempt=1) == "ready\n"
    until(lambda: portal.log(second) == "".join(f"/dev/nvidia{id}\n" for id in range(GPUS)) + "ready\n", what="GPUs")


def test_a_gang_whose_host_lost_its_power_begins_anew_and_what_it_left_there_is_removed(
    portal: Portal, nodes: dict[str, BedNode]
) -> None:
    only(portal, "tls", "ssh")
    name = portal.submit(config("power", FOREVER, gpuNumber=GPUS, taskNumber=2))
    for index in range(2):
        portal.wait_running(name, index=index)
    only(portal, "unix", "ssh")
    nodes["tls"].fault("crash")
    try:
        until(lambda: len(portal.attempts(name)) == 2, 120, 0.2, what="it begins anew")
        assert {portal.wait_running(name, index=index)["nodeName"] for index in range(2)} == {"unix", "ssh"}
        assert portal.attempts(name)[-1]["appExitCode"] == -7111
    finally:
        nodes["tls"].fault("boot")
    until(lambda: not containers(nodes["tls"], portal), 40, 0.2, what="the dead container is removed")
    until(lambda: portal.node("tls")["health"] == "ready", 20, 0.2, what="its host is a node again")
    assert portal.node("tls")["resourcesUsed"]["GPUs"] == 0
    assert [portal.log(name, index=index, attempt=1) for index in range(2)] == ["ready\n"] * 2


def all_have_ended(portal: Portal, nodes: dict[str, BedNode], names: list[str]) -> bool:
    """And what still runs is told to go on to its end."""
    for node in nodes.values():
        with suppress(AssertionError):  # one has just ended
            for id in docker(node, "ps", "-q", "--filter", f"label={LABEL_INSTANCE}={portal.instance}").split():
                docker(node, "exec", id, "touch", "/tmp/go")
    return all(portal.state(name) in ENDS for name in names)


@pytest.mark.parametrize(
    ("fault", "cure"), [("kill-dockerd", "start-dockerd"), ("stop-dockerd", "start-dockerd"), ("crash", "boot")]
)
def test_jobs_come_to_their_right_ends_when_their_host_does_not(
    portal: Portal, nodes: dict[str, BedNode], fault: str, cure: str
) -> None:
    only(portal, "unix", "tls")
    command = "echo begin; until [ -e /tmp/go ]; do sleep 0.1; done; echo end; exit $((PAI_TASK_INDEX * 3))"
    good = [portal.submit(config(f"{fault}-{number}", command)) for number in range(4)]
    bad = portal.submit(config(f"{fault}-bad", command, taskNumber=2))
    for name in good:
        until(lambda name=name: has_run(portal, name), 40, 0.1, f"{name} runs, or has run")  # type: ignore[misc]
    node = nodes["tls"]
    node.fault(fault)
    node.fault(cure)
    until(lambda: all_have_ended(portal, nodes, [*good, bad]), 120, 0.5, "all have ended")
    for name in good:
        status = portal.wait_state(name, timeout=60)
        assert (status["state"], status["retryDetails"]["user"]) == ("SUCCEEDED", 0), portal.events(name)
        assert portal.log(name) == "begin\nend\n"
    status = portal.wait_state(bad, timeout=60)
    assert (status["state"], status["appExitCode"], status["retryDetails"]["user"]) == ("FAILED", 255, 0)
    assert status["appExitMessages"]["runtime"]["originalUserExitCode"] == 3
    portal.wait_clean(*nodes.values())
