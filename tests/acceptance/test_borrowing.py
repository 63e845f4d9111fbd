"""Three real nodes shared by two teams: what is lent comes back, guests leave, and a drained node becomes empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.portal import ENDS, Portal, config, containers, portal_beside
from tests.bed.docker_bed import Bed, BedNode
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker
GPUS = 4
FOREVER = "trap 'echo told to end; exit 143' TERM; echo ready; while :; do sleep 1; done"
EVICTED = -7120


@pytest.fixture(scope="module")
def portal(bed: Bed, docker_nodes: list[BedNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    home = tmp_path_factory.mktemp("portal")
    with portal_beside(*docker_nodes, home=home, LONGSHORE_EVICTION_GRACE=f"{LIMIT:.0f}") as one:
        for at, node in enumerate(docker_nodes):
            one.add_node(node, name=f"n{at}", gpuNumber=GPUS, cpuNumber=8)
        for vc, capacity in (("vision", 34), ("speech", 34)):
            answer = one.http.put(f"/virtual-clusters/{vc}", json={"vcCapacity": capacity, "vcMaxCapacity": 100})
            assert answer.status_code == 201, answer.text
        yield one
        one.wait_clean(*docker_nodes)


@pytest.fixture(autouse=True)
def nothing_left(portal: Portal) -> Iterator[None]:
    yield
    portal.stop_all()
    until(lambda: not [job for job in portal.get("/jobs") if job["state"] not in ENDS], 60, 0.2, what="all have ended")
    for at in range(3):
        portal.http.put(f"/nodes/n{at}/status", json={"nodeStatus": "active"})


def runs(portal: Portal, name: str, vc: str = "default", gpus: int = GPUS, tasks: int = 1, **more: object) -> str:
    asks = {"taskNumber": tasks, "gpuNumber": gpus, "virtualCluster": vc, **more}
    portal.submit(config(name, FOREVER, **asks))
    portal.wait_running(name)
    return name


def ended_with(portal: Portal, name: str) -> list[int]:
    """Of the attempts before this one; the last comes first."""
    return [attempt["appExitCode"] for attempt in portal.attempts(name)[1:]]


def test_a_guest_runs_on_reserved_room_until_it_is_needed(portal: Portal) -> None:
    """The first of this file, since once jobs have ended their lengths say where room comes first."""
    first = [runs(portal, f"first-{at}") for at in range(2)]
    half = runs(portal, "half", gpus=2)
    portal.submit(config("large", FOREVER, gpuNumber=GPUS))
    until(
        lambda: portal.job("large")["jobStatus"]["waitingReason"].get("reservation"),
        20,
        0.2,
        what="room is kept for it",
    )
    assert portal.job("large")["jobStatus"]["waitingReason"]["reservation"]["nodes"] == ["n2"]
    portal.submit(config("beside", FOREVER, gpuNumber=1))
    guest = runs(portal, "guest", gpus=1, extras={"preemptible": True})
    assert portal.state("beside") == "WAITING", "it is no guest"
    portal.stop(half)
    portal.wait_running("large", timeout=60)
    assert portal.state(guest) == "WAITING"
    assert [portal.state(name) for name in first] == ["RUNNING", "RUNNING"]


def test_a_drained_node_becomes_empty_and_its_gang_goes_elsewhere(portal: Portal, docker_nodes: list[BedNode]) -> None:
    """Before anybody is evicted for an owner: they would rest, and the gang borrows."""
    gang = runs(portal, "gang", gpus=GPUS, tasks=2)
    used = {portal.task(gang, index=at)["nodeName"] for at in range(2)}
    drained = sorted(used)[0]
    assert portal.http.put(f"/nodes/{drained}/status", json={"nodeStatus": "draining"}).status_code == 200
    until(lambda: len(portal.attempts(gang)) == 2, 60, 0.2, what="it begins anew")
    portal.wait_running(gang, timeout=60)
    assert drained not in {portal.task(gang, index=at)["nodeName"] for at in range(2)}
    assert ended_with(portal, gang) == [EVICTED]
    engine = docker_nodes[int(drained[1:])]
    until(lambda: not containers(engine, portal), 40, 0.2, what="nothing is left on it")


def test_what_is_borrowed_comes_back_with_its_place_and_without_a_retry(portal: Portal) -> None:
    lent = [runs(portal, f"lent-{at}", "speech") for at in range(3)]
    runs(portal, "owner", "vision")
    until(lambda: portal.state(lent[2]) == "WAITING", 40, 0.2, what="the youngest waits again")
    assert [portal.state(name) for name in lent] == ["RUNNING", "RUNNING", "WAITING"]
    assert EVICTED in [attempt["appExitCode"] for attempt in portal.attempts(lent[2])]
    assert portal.job(lent[2])["jobStatus"]["retryDetails"]["user"] == 0
    assert "told to end" in portal.log(lent[2], attempt=1)
    assert [event["kind"] for event in portal.events("owner")].count("job.reclaimed") == 1
    portal.stop("owner")
    until(lambda: portal.job("owner")["jobStatus"]["state"] in ENDS, 60, 0.2, what="it gives its room back")
    reasons = portal.job(lent[2])["jobStatus"]["waitingReason"]["blockers"]
    assert [reason["kind"] for reason in reasons] == ["delay"], "it rests before it borrows again"
    for name in lent[:2]:
        portal.stop(name)
    portal.wait_running(lent[2], timeout=60)  # within its guarantee at once
