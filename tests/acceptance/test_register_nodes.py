"""Registering a real engine by each of its three ways, and what is said when the way is blocked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from base.models import User
from clusters import first_start
from clusters.engines import own_ssh, schemes
from clusters.models import Node
from clusters.nodes import gpus, probe, survey
from tests.acceptance.portal import docker
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT
from tests.keys import make_keys

URL = "/api/v1/nodes"
pytestmark = [pytest.mark.docker, pytest.mark.django_db]


@pytest.fixture
def host(docker_nodes: list[BedNode]) -> BedNode:
    """With dockerd on a socket, on TLS and behind sshd."""
    return docker_nodes[0]


@pytest.fixture
def root(
    host: BedNode, api: Callable[[User], APIClient], admin: User, monkeypatch: pytest.MonkeyPatch
) -> Iterator[APIClient]:
    monkeypatch.setenv("HOME", str(host.bed.folder / "home"))  # the keys and known_hosts of the user Longshore runs as
    monkeypatch.setattr(probe, "DEADLINE", LIMIT)
    for room in (gpus, survey):
        monkeypatch.setattr(room, "PATIENCE", LIMIT)
    schemes.set_engine_factory(None)
    yield api(admin)
    schemes.set_engine_factory(None)


def bodies(host: BedNode) -> dict[str, dict[str, Any]]:
    tls = {name: (host.tls_dir / f"{name}.pem").read_text() for name in ("ca", "cert", "key")}
    return {
        "unix": {"name": "by-unix", "endpoint": host.unix},
        "tcp": {"name": "by-tcp", "endpoint": host.tls, "tls": tls},
        "ssh": {"name": "by-ssh", "endpoint": host.ssh},
    }


def authorized_keys(host: BedNode) -> Path:
    return host.bed.folder / "nodes" / host.name / "ssh" / "authorized_keys"


@pytest.mark.parametrize("way", ["unix", "tcp", "ssh"])
def test_it_registers_a_real_engine(host: BedNode, root: APIClient, way: str) -> None:
    answer = root.post(URL, bodies(host)[way], format="json")
    assert answer.status_code == 201, answer.json()
    node = answer.json()
    assert node["dockerVersion"] and node["resourcesTotal"]["vCores"] >= 1
    assert node["resourcesTotal"]["memory"] >= 256
    assert node["address"] == (probe.primary_address() if way == "unix" else host.address)
    assert schemes.runtime_for(node["name"]).list() == []


def test_it_knows_an_engine_again_behind_another_endpoint(host: BedNode, root: APIClient) -> None:
    ways = bodies(host)
    assert root.post(URL, ways["ssh"], format="json").status_code == 201
    for way in ("unix", "tcp"):
        answer = root.post(URL, ways[way], format="json")
        assert (answer.status_code, "is node by-ssh already" in answer.json()["message"]) == (409, True)
    moved = {key: value for key, value in ways["tcp"].items() if key != "name"}
    assert root.put(f"{URL}/by-ssh", moved, format="json").status_code == 200
    assert Node.objects.get().tls_dir


def test_it_says_which_part_of_the_way_is_wrong(host: BedNode, root: APIClient, tmp_path: Path) -> None:
    tcp = bodies(host)["tcp"]
    wrong = [
        (tcp | {"tls": make_keys()}, "certificate"),
        (tcp | {"endpoint": f"tcp://{host.address}:2399"}, "nothing listens there"),
        ({"name": "x", "endpoint": f"unix://{tmp_path}/docker.sock"}, "there is no such socket"),
        ({"name": "x", "endpoint": "ssh://root@127.0.0.1:9"}, "nothing listens there"),
        ({"name": "x", "endpoint": f"ssh://nobodyhere@{host.address}"}, "does not take our SSH key for that user"),
    ]
    for body, words in wrong:
        answer = root.post(URL, body, format="json")
        assert (answer.status_code, words in answer.json()["message"]) == (400, True), answer.json()
    assert not Node.objects.exists()


def test_it_says_what_a_user_without_docker_is_told(host: BedNode, root: APIClient) -> None:
    keys = authorized_keys(host)
    key = keys.read_text()
    keys.write_text(f'command="echo permission denied while trying to connect to the socket >&2; exit 1" {key}')
    try:
        answer = root.post(URL, bodies(host)["ssh"], format="json")
    finally:
        keys.write_text(key)
    said = "the login works, but there 'docker system dial-stdio' says: permission denied while trying to connect"
    assert (answer.status_code, said in answer.json()["message"]) == (400, True), answer.json()


def test_it_gives_up_on_a_frozen_host(host: BedNode, root: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "DEADLINE", 1.0)
    host.fault("freeze")
    try:
        answer = root.post(URL, bodies(host)["tcp"], format="json")
    finally:
        host.fault("thaw")
    assert (answer.status_code, "does not answer within 1 s" in answer.json()["message"]) == (400, True)


def test_it_refuses_a_host_of_a_swarm(host: BedNode, root: APIClient) -> None:
    docker(host, "swarm", "init", "--advertise-addr", host.address)
    try:
        answer = root.post(URL, bodies(host)["unix"], format="json")
    finally:
        docker(host, "swarm", "leave", "--force")
    assert (answer.status_code, "Swarm" in answer.json()["message"]) == (400, True)


def test_it_finds_the_engine_of_docker_host_at_the_first_start(host: BedNode, root: APIClient, settings: Any) -> None:
    settings.DOCKER_HOST = host.unix
    docker(host, "image", "rm", "--force", "longshore/sample:1")
    told: list[str] = []
    first_start.prepare(say=told.append)
    assert Node.objects.get().name == "local"
    assert told[0].startswith("Docker ") and "is node local" in told[0]
    assert told[1].startswith("Image longshore/sample:1 was made"), told
    docker(host, "image", "inspect", "longshore/sample:1")
    del told[:]
    first_start.prepare(say=told.append)
    assert told == []


def test_the_portals_own_key_and_an_accepted_host_key_are_enough(
    host: BedNode, browse: Callable[[User], Client], admin: User, settings: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # a user without any key of their own
    settings.HOME = tmp_path
    schemes.set_engine_factory(None)
    keys = authorized_keys(host)
    before, client = keys.read_text(), browse(admin)
    form = {"name": "by-page", "kind": "ssh", "ssh_to": f"root@{host.address}", "network": "host", "labels": ""}
    form |= {"port_from": "30000", "port_to": "39999"}

    def states(**more: str) -> dict[str, str]:
        steps = client.post("/add-node", {**form, "action": "test", **more}).context["tested"].steps
        found.extend(step.fingerprint for step in steps if step.fingerprint)
        return {step.name: step.state for step in steps}

    found: list[str] = []
    assert states()["Host key"] == "failed"
    assert states(trust=found[0])["Docker"] == "failed", "the account does not have our key yet"
    keys.write_text(f"{before}\n{own_ssh.public_key()}\n")
    try:
        tested = states()
        assert {tested[name] for name in ("Reached", "Host key", "Docker", "Images")} == {"passed"}, tested
        assert client.post("/add-node", {**form, "action": "add"}).status_code == 302
        assert schemes.runtime_for("by-page").list() == []
    finally:
        keys.write_text(before)
        schemes.set_engine_factory(None)
