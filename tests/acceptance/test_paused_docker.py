"""A container that somebody pauses at a real engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.acceptance.docker_lab import DockerLab, runtime_at
from tests.acceptance.portal import Portal, config, container_of, docker
from tests.bed.docker_bed import BedNode
from tests.contract_runtime import found, request
from tests.helpers import until

pytestmark = pytest.mark.docker


@pytest.fixture
def near(docker_engine: BedNode, sample_image: str, unhurried: None) -> Iterator[DockerLab]:
    lab = DockerLab(runtime_at(docker_engine, "unix"), docker_engine)
    yield lab
    lab.clear()


def test_the_list_and_the_events_tell_of_it(near: DockerLab) -> None:
    name = near.runtime.ensure(request(near)).name
    assert near.runtime.list(), "its events are told from here on"
    for order, paused in (("pause", True), ("unpause", False), ("pause", True)):
        until(lambda: _is_quiet(near), 20, what="no event is left")
        docker(near.node, order, name)
        until(lambda: not _is_quiet(near), what="an event tells of it")
        for runtime in (near.runtime, runtime_at(near.node, "unix")):  # the other one has seen nothing before
            (status,) = (one for one in runtime.list() if one.name == name)
            assert (str(status.phase), status.paused) == ("running", paused)
    near.runtime.stop(name, 1)
    assert (status := found(near, name)) and (str(status.phase), status.paused) == ("exited", False)


def _is_quiet(lab: DockerLab) -> bool:
    woken = threading.Event()
    assert lab.runtime.wait_event(0.5, woken.set)
    return not woken.is_set()


def test_its_task_says_so_and_runs_on_when_it_is_unpaused(shared_portal: Portal, docker_engine: BedNode) -> None:
    portal = shared_portal
    name = portal.submit(config("paused", "while true; do date; sleep 1; done"))
    portal.wait_running(name)
    container = container_of(docker_engine, name)
    docker(docker_engine, "pause", container)
    until(lambda: "unpauses its container" in (portal.task(name)["note"] or ""), 20, what="the task says so")
    assert portal.task(name)["taskState"] == "RUNNING"
    docker(docker_engine, "unpause", container)
    until(lambda: portal.task(name)["note"] is None, 20, what="it says so no more")
    docker(docker_engine, "pause", container)
    until(lambda: portal.task(name)["note"], 20, what="it says so again")
    portal.stop(name)  # a paused container can be stopped
    portal.wait_state(name)
    kinds = [event["kind"] for event in portal.events(name) if "paused" in event["kind"]]
    assert sorted(kinds) == ["task.paused", "task.paused", "task.unpaused"]
    portal.wait_clean(docker_engine)
