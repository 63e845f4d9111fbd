"""Every sample that the Submit page offers, sent as it is, comes to the end that its comments promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.config.samples import SAMPLES
from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode

pytestmark = pytest.mark.docker
CONFIGS = {sample.key: sample.config for sample in SAMPLES}


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    yield shared_portal
    shared_portal.wait_clean(docker_engine)


def test_hello_world_greets_and_ends(portal: Portal) -> None:
    name = portal.submit(CONFIGS["hello-world"])
    assert portal.wait_state(name)["state"] == "SUCCEEDED"
    assert portal.log(name, "hello") == "Hello, admin, from admin~hello-world\nDone\n"
    assert portal.log(name, "hello", stream="stderr") == ""


def test_two_roles_talk_over_the_exported_addresses_and_ports(portal: Portal) -> None:
    name = portal.submit(CONFIGS["two-roles"])
    status = portal.wait_state(name, timeout=90)
    assert (status["state"], status["appExitCode"]) == ("SUCCEEDED", 0)
    assert status["retryDetails"] == {"user": 0, "platform": 0, "resource": 0}
    assert portal.log(name, "worker") == "Greetings from the server\n"
    assert portal.task(name, "server")["containerExitCode"] == -7400
    assert portal.task(name, "worker")["containerExitCode"] == 0


def test_the_one_that_fails_is_tried_once_more_and_keeps_its_own_code(portal: Portal) -> None:
    name = portal.submit(CONFIGS["fails"])
    status = portal.wait_state(name)
    assert (status["state"], status["appExitCode"]) == ("FAILED", 255)
    assert status["appExitMessages"]["runtime"]["originalUserExitCode"] == 3
    assert status["retryDetails"] == {"user": 1, "platform": 0, "resource": 0}
    assert [attempt["attempt"] for attempt in portal.attempts(name)] == [2, 1]
    for attempt in (1, 2):
        assert portal.log(name, attempt=attempt) == "Starting\n"
        assert "no data to train on" in portal.log(name, stream="stderr", attempt=attempt)


def test_the_one_that_takes_too_much_memory_is_not_tried_again(portal: Portal) -> None:
    name = portal.submit(CONFIGS["too-much-memory"])
    status = portal.wait_state(name)
    assert (status["state"], status["appExitCode"]) == ("FAILED", 196)
    assert status["retryDetails"] == {"user": 0, "platform": 0, "resource": 0}
    assert "ran out of memory. It used all of its 100 MB." in status["appExitDiagnostics"]
    assert portal.log(name).startswith("Taking more and more memory")


def test_the_one_that_is_out_of_time_is_ended_and_not_tried_again(portal: Portal) -> None:
    name = portal.submit(CONFIGS["out-of-time"])
    status = portal.wait_state(name, timeout=60)
    assert (status["state"], status["appExitCode"]) == ("FAILED", -7501)
    assert status["retryDetails"] == {"user": 0, "platform": 0, "resource": 0}
    assert "The job ran for 10 s, which is all that its maxRunSeconds allow." in status["appExitDiagnostics"]
    assert portal.log(name) == "Working for a minute ...\n"
