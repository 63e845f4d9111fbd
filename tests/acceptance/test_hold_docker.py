"""isDebug on a real engine: its health check tells of the hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusters.engines.runtime import CAPABILITIES
from tests.acceptance.portal import Json, Portal, config, container_of, inspect
from tests.bed.docker_bed import BedNode
from tests.helpers import until

pytestmark = pytest.mark.docker
SHORT = 60  # seconds, for the one that waits for its end; else it is days


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    yield shared_portal
    shared_portal.stop_all()
    shared_portal.wait_clean(docker_engine)


def held(portal: Portal, name: str) -> Json:
    portal.submit(config(name, "echo failing; exit 3", jobEnvs={"isDebug": True}))
    return until(lambda: _held(portal, name), 30, 0.2, what="it is kept")


def _held(portal: Portal, name: str) -> Json:
    roles = portal.job(name)["taskRoles"]
    task: Json = roles["main"]["taskStatuses"][0] if roles else {}
    return task if task.get("heldUntil") else {}


def test_a_failed_command_keeps_its_container_until_it_is_released(portal: Portal) -> None:
    assert held(portal, "keep")["taskState"] == "RUNNING"
    assert "kept" in portal.log("keep", stream="stderr")
    answer = portal.http.put("/user/admin/jobs/keep/release")
    assert (answer.status_code, answer.json()) == (202, {"released": 1})
    status = portal.wait_state("keep")
    assert (status["state"], status["appExitCode"]) == ("FAILED", 255)
    assert status["appExitMessages"]["runtime"]["originalUserExitCode"] == 3


def test_it_tells_the_code_and_lets_debuggers_work(portal: Portal, docker_engine: BedNode) -> None:
    held(portal, "trace")
    (said,) = [event["reason"] for event in portal.events("trace") if event["kind"] == "task.held"]
    assert "ended with exit code 3" in said
    container = inspect(docker_engine, container_of(docker_engine, "trace"))
    given = {name.removeprefix("CAP_") for name in container["HostConfig"]["CapAdd"]}
    assert given == {*CAPABILITIES, "SYS_PTRACE"}
    assert container["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    portal.stop("trace")


@pytest.mark.timed
def test_its_time_is_over_also_without_the_portal(portal: Portal, docker_engine: BedNode) -> None:
    """It must be seen to be kept, and the portal killed, within that time."""
    portal.terminate()
    portal.settings["LONGSHORE_DEBUG_HOLD"] = str(SHORT)
    try:
        portal.start()
        held(portal, "forgotten")
        name = container_of(docker_engine, "forgotten")
        portal.kill()
        until(lambda: not inspect(docker_engine, name)["State"]["Running"], 2 * SHORT, 0.5, what="it ends by itself")
    finally:
        portal.kill()
        del portal.settings["LONGSHORE_DEBUG_HOLD"]
        portal.start()
    status = portal.wait_state("forgotten")
    assert (status["state"], status["appExitMessages"]["runtime"]["originalUserExitCode"]) == ("FAILED", 3)


def test_a_stop_ends_it(portal: Portal) -> None:
    held(portal, "stopped")
    portal.stop("stopped")
    assert portal.wait_state("stopped")["state"] == "STOPPED"


def test_a_command_that_succeeds_is_not_kept(portal: Portal) -> None:
    name = portal.submit(config("fine", "true", jobEnvs={"isDebug": True}))
    assert portal.wait_state(name)["state"] == "SUCCEEDED"
