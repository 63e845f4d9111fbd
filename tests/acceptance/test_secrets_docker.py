"""Secrets of a config on a real engine: the command has them, nothing that the engine keeps does."""

from __future__ import annotations

import pytest

from tests.acceptance.portal import Portal, config, container_of, docker
from tests.bed.docker_bed import BedNode
from tests.helpers import until

pytestmark = pytest.mark.docker
VALUE = 'it\'s $HOME "hushhush" \\ and\ttwo\nlines'


def test_the_command_has_its_secrets_and_the_engine_knows_none(shared_portal: Portal, docker_engine: BedNode) -> None:
    portal = shared_portal
    command = 'printf %s "$TOKEN" | tr a-z n-za-m; sleep 60'
    name = portal.submit(config("hello", command, extras={"secrets": {"TOKEN": VALUE}}))
    portal.wait_running(name)
    inspected = docker(docker_engine, "inspect", container_of(docker_engine, name))
    assert "hushhush" not in inspected
    portal.stop(name)
    portal.wait_state(name)
    letters = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
    assert portal.log(name) == VALUE.translate(letters)
    assert portal.get(f"/user/admin/jobs/{name}/config")["extras"] == {"secrets": {"TOKEN": "(secret)"}}
    stored = b"".join(path.read_bytes() for path in portal.home.rglob("*") if path.is_file())
    assert b"hushhush" not in stored and b"hello" in stored


def test_a_container_that_somebody_restarts_is_lost_and_its_job_has_its_secrets_again(
    shared_portal: Portal, docker_engine: BedNode
) -> None:
    """They come once, over its standard input: the restarted one would wait for them for ever."""
    portal = shared_portal
    name = portal.submit(config("restarted", 'echo "$TOKEN"; sleep 600', extras={"secrets": {"TOKEN": VALUE}}))
    portal.wait_running(name)
    docker(docker_engine, "restart", "-t", "0", container_of(docker_engine, name))
    until(lambda: portal.job(name)["jobStatus"]["retries"] == 1, 60, what="the loss is noticed")
    portal.wait_running(name)
    until(lambda: VALUE in portal.log(name), 20, what="the second attempt has its secrets")
    assert any("started a second time by somebody" in event["reason"] for event in portal.events(name))
    portal.stop(name)
    portal.wait_state(name)
    portal.wait_clean(docker_engine)
