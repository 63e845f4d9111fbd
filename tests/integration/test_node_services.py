"""Node services beside the API: the first start, keys on disk, races, and what this host has."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections
from django.utils import timezone
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from base.accounts.viewer import Guest
from base.core.errors import BadRequest, ConflictNode, Forbidden, Unauthorized
from base.core.signals import first_start
from base.models import AuditEvent, User
from clusters import first_start as node_start
from clusters.engines import schemes
from clusters.engines.runtime import DiskUse, FaultReason, RuntimeFault
from clusters.engines.sample_image import SAMPLE_IMAGE
from clusters.models import Allocation, Node
from clusters.nodes import gpus, probe, refusals, services, survey, trial
from clusters.nodes import keys as node_keys
from clusters.nodes.serializers import Tls
from jobs.models import Event
from tests.builders import make_node
from tests.fakes.runtime import Behaviour, FakeRuntime
from tests.helpers import LIMIT
from tests.hosts import Hosts
from tests.keys import make_keys


@pytest.fixture
def engine() -> Iterator[FakeRuntime]:
    """One engine behind every endpoint."""
    engine = FakeRuntime(hostname="here", cpus=8, memory_mb=16_000)
    schemes.set_engine_factory(lambda endpoint, tls_dir: engine)
    yield engine
    schemes.set_engine_factory(None)


@pytest.fixture
def web_is_up(engine: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "portal_answers", lambda: True)
    engine.behave(Behaviour(exit_code=0))


@pytest.fixture
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "find_gpus", list)


# --- the local node ---------------------------------------------------------------------------------------------------


def test_it_makes_the_engine_of_docker_host_node_local(
    db: None, engine: FakeRuntime, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DOCKER_HOST = "/var/run/docker.sock"
    monkeypatch.setattr(services, "find_gpus", lambda: [{"id": "0", "type": "T4"}])
    node = services.register_local_node()
    assert node is not None
    assert (node.name, node.endpoint, node.cpus, node.memory_mb) == ("local", "unix:///var/run/docker.sock", 8, 16_000)
    assert node.address == probe.primary_address()
    assert node.gpus == [{"id": "0", "type": "T4"}]
    assert AuditEvent.objects.get().actor == "first start"


def test_it_leaves_a_portal_that_has_nodes_alone(db: None, engine: FakeRuntime, no_gpus: None) -> None:
    assert services.register_local_node() is not None
    assert services.register_local_node() is None
    assert Node.objects.count() == 1


def test_it_says_in_one_sentence_why_there_is_no_local_node(db: None, settings: Any) -> None:
    def nobody(endpoint: str, tls_dir: Path | None) -> FakeRuntime:
        raise RuntimeFault("No engine listens there.", reason=FaultReason.UNREACHABLE)

    schemes.set_engine_factory(nobody)
    try:
        with pytest.raises(BadRequest, match=r"^No engine listens there\.$"):
            settings.DOCKER_HOST = "unix:///nowhere"
            services.register_local_node()
    finally:
        schemes.set_engine_factory(None)
    assert not Node.objects.exists()


@pytest.mark.parametrize("host", ["nonsense", "http://x:1", "tcp://x"])
def test_it_names_docker_host_when_that_is_wrong(db: None, settings: Any, host: str) -> None:
    settings.DOCKER_HOST = host
    with pytest.raises(BadRequest, match=r"^DOCKER_HOST is .*; it must "):
        services.register_local_node()


def test_it_uses_and_never_removes_the_certificates_of_docker_cert_path(
    admin: User, engine: FakeRuntime, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    settings.DOCKER_HOST = "tcp://gpu-01:2376"
    node = services.register_local_node()
    assert node is not None and (node.tls_dir, node.address) == (str(tmp_path), "gpu-01")
    services.remove_node(admin, "local")
    assert tmp_path.is_dir()


# --- the door ---------------------------------------------------------------------------------------------------------


def test_it_asks_for_the_right_before_anything_else(alice: User, engine: FakeRuntime) -> None:
    for actor, error in ((Guest(), Unauthorized), (alice, Forbidden)):
        for write in (services.register_node,):
            with pytest.raises(error):
                write(actor, {})
        for change in (services.change_node, services.set_node_status):
            with pytest.raises(error):
                change(actor, "nobody", {})
        with pytest.raises(error):
            services.remove_node(actor, "nobody")
    assert not engine.calls


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_refuses_a_key_of_another_certificate_and_an_encrypted_one(tmp_path: Path) -> None:
    keys = make_keys()
    encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    for wrong in (keys["key"].replace("A", "B"), encrypted, keys["cert"], "\ud800"):
        with pytest.raises(BadRequest, match="its key without a password"):
            node_keys.store("n", Tls.model_construct(**(keys | {"key": wrong})).files())
    assert not (Path(settings.HOME) / "secrets" / "nodes" / "n").exists()


def test_it_keeps_the_keys_of_the_winner_when_one_name_is_registered_twice(
    admin: User, engine: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"name": "winner", "endpoint": "tcp://g:2376", "tls": make_keys()}
    real = services.probe

    def slow_probe(endpoint: str, tls_dir: str) -> Any:
        monkeypatch.setattr(services, "probe", real)
        services.register_node(admin, body)  # somebody else, while we were asking the engine
        return real(endpoint, tls_dir)

    monkeypatch.setattr(services, "probe", slow_probe)
    with pytest.raises(ConflictNode):
        services.register_node(admin, body)
    folder = Path(Node.objects.get().tls_dir)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    node_keys.forget(str(folder))


@pytest.mark.django_db(transaction=True)
def test_it_registers_an_engine_once_when_two_admins_do_it_at_once(engine: FakeRuntime, no_gpus: None) -> None:
    admin = User.objects.create_user("root", "x", is_admin=True)
    outcomes: list[str] = []
    gate = threading.Barrier(4)

    def register(number: int) -> None:
        gate.wait(LIMIT)
        try:
            services.register_node(admin, {"name": f"n{number}", "endpoint": f"ssh://n{number}"})
            outcomes.append("made")
        except ConflictNode:
            outcomes.append("refused")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=register, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert sorted(outcomes) == ["made", "refused", "refused", "refused"]
    assert Node.objects.count() == 1


def test_it_asks_the_engine_outside_any_transaction(
    transactional_db: None, engine: FakeRuntime, no_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = User.objects.create_user("root", "x", is_admin=True)
    real, inside = services.probe, []

    def watched(endpoint: str, tls_dir: str = "") -> Any:
        inside.append(connection.in_atomic_block)
        return real(endpoint, tls_dir)

    monkeypatch.setattr(services, "probe", watched)
    services.register_node(admin, {"name": "a", "endpoint": "ssh://a"})
    services.change_node(admin, "a", {"endpoint": "ssh://b"})
    assert inside == [False, False]


def test_it_never_writes_what_the_scheduler_observes(
    admin: User, engine: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.register_node(admin, {"name": "a", "endpoint": "ssh://a"})
    real = services.probe

    def meanwhile(endpoint: str, tls_dir: str = "") -> Any:
        Node.objects.update(health="unreachable", health_reason="cut", held={"gpus": ["0"]})
        return real(endpoint, tls_dir)

    monkeypatch.setattr(services, "probe", meanwhile)
    services.change_node(admin, "a", {"endpoint": "ssh://b"})
    services.set_node_status(admin, "a", {"nodeStatus": "draining"})
    node = Node.objects.get()
    assert (node.endpoint, node.status) == ("ssh://b", "draining")
    assert (node.health, node.health_reason, node.held) == ("unreachable", "cut", {"gpus": ["0"]})


def test_it_refuses_to_remove_a_node_that_got_a_task_this_moment(
    admin: User, engine: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = services.register_node(admin, {"name": "a", "endpoint": "ssh://a"})

    def place(*_: Any) -> None:
        Allocation.objects.create(owner="1", node=node, vc="default", cpus=1, memory_mb=1)

    monkeypatch.setattr(services.audit, "changed", place)
    with pytest.raises(ConflictNode, match="node a"):
        services.remove_node(admin, "a")
    assert Node.objects.count() == 1


# --- what this host has -----------------------------------------------------------------------------------------------


def test_it_reads_nvidia_smi() -> None:
    text = "0, NVIDIA A100-SXM4-40GB\n1, Tesla V100-PCIE-16GB\nNo devices were found\n\n"
    assert gpus.parse(text) == [{"id": "0", "type": "A100-SXM4-40GB"}, {"id": "1", "type": "Tesla-V100-PCIE-16GB"}]


@pytest.mark.parametrize("script", ["exit 9", "sleep 3 & wait", "printf '\\377'", None])
def test_it_finds_no_gpus_where_nvidia_smi_fails_hangs_or_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    if script is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    monkeypatch.setattr(gpus, "TIMEOUT", 0.2)
    assert gpus.find_gpus() == []


def test_it_finds_an_address_that_other_hosts_can_use() -> None:
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    assert probe.primary_address() in {*addresses, "127.0.0.1"}
    assert probe.address_of("tcp://gpu-01:2376") == "gpu-01"
    assert (
        probe.address_of("unix:///run/docker.sock") == probe.address_of("tcp://127.0.0.1:1") == probe.primary_address()
    )


# --- the first start --------------------------------------------------------------------------------------------------


@pytest.fixture
def image_builder(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands for the builder of the sample image, which has tests of its own."""
    asked: list[Any] = []
    monkeypatch.setattr(node_start, "ensure_sample_image", lambda runtime: asked.append(runtime) or "Built.")
    return asked


def test_it_tells_what_a_first_start_found_and_is_quiet_later(
    db: None, engine: FakeRuntime, no_gpus: None, image_builder: list[Any]
) -> None:
    told: list[str] = []
    first_start.send(sender=None, say=told.append)
    assert told == [
        "Docker 20.10-fake at unix:///var/run/docker.sock is node local: 8 CPUs, 15.6 GB of memory, no GPU.",
        "Built.",
    ]
    assert image_builder == [engine]
    del told[1:]
    first_start.send(sender=None, say=told.append)
    assert len(told) == 2 and Node.objects.count() == 1


def test_it_goes_on_without_an_engine(db: None, engine: FakeRuntime, image_builder: list[Any]) -> None:
    engine.cut()
    told: list[str] = []
    first_start.send(sender=None, say=told.append)
    assert len(told) == 1 and told[0].startswith("No node yet. The Docker engine here does not answer.")
    assert not image_builder


def test_it_goes_on_when_the_sample_image_cannot_be_built(
    db: None, engine: FakeRuntime, no_gpus: None, image_builder: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(runtime: Any) -> str:
        raise RuntimeFault("No space left.", reason=FaultReason.REFUSED)

    monkeypatch.setattr(node_start, "ensure_sample_image", refuse)
    told: list[str] = []
    first_start.send(sender=None, say=told.append)
    assert told[1] == "The image of the sample jobs could not be built: No space left."


# --- surveys ----------------------------------------------------------------------------------------------------------


def surveys() -> list[tuple[str, bool]]:
    """What the queue has, which is empty then."""
    found = [each for row in OrmQ.objects.order_by("id") for each in SignedPackage.loads(row.payload)["args"][0]]
    OrmQ.objects.all().delete()
    return [(name, thorough) for name, thorough in found]


def test_a_node_is_surveyed_at_first_then_now_and_then_and_when_it_is_back(db: None) -> None:
    now = timezone.now()
    make_node("n1")
    make_node("n2", health="unreachable")
    survey.order_due(now)
    assert surveys() == [("n1", True)]
    survey.order_due(now)
    assert surveys() == []
    Node.objects.filter(name="n1").update(health="unreachable")
    survey.order_due(now)
    Node.objects.update(health="ready")
    survey.order_due(now)
    assert surveys() == [("n1", True), ("n2", True)]
    survey.order_due(now + survey.EVERY + timedelta(seconds=1))
    assert surveys() == [("n1", False), ("n2", False)]


def test_a_node_that_came_back_without_the_sample_image_gets_it(db: None, engine: FakeRuntime) -> None:
    make_node("n1")
    survey.survey("n1", thorough=False)
    assert SAMPLE_IMAGE in engine.images
    assert Node.objects.get().images == [SAMPLE_IMAGE]


def test_what_a_trial_found_is_tried_again_until_it_works(db: None, engine: FakeRuntime, web_is_up: None) -> None:
    engine.gpu_ids = frozenset()
    make_node("n1", gpus=2)
    survey.survey("n1", thorough=True)
    assert list(Node.objects.get().marks) == ["gpus"]
    engine.gpu_ids = frozenset("01")
    survey.survey("n1", thorough=False)
    assert Node.objects.get().marks == {}
    assert list(Event.objects.order_by("id").values_list("kind", "node")) == [
        ("node.marked", "n1"),
        ("node.unmarked", "n1"),
    ]


def test_a_trial_in_which_a_container_ran_shows_that_the_node_starts_some(
    db: None, engine: FakeRuntime, web_is_up: None
) -> None:
    make_node("n1", gpus=2)
    full = RuntimeFault("The node's disk is full.", reason=FaultReason.NODE_BROKEN)
    for attempt in "abc":
        refusals.refused("n1", full, image=SAMPLE_IMAGE, attempt=attempt)
    engine.gpu_ids, marked = frozenset("01"), list(Node.objects.get().marks)
    survey.survey("n1", thorough=True)
    assert (marked, Node.objects.get().marks) == (["start"], {})


def test_a_node_that_does_not_answer_is_surveyed_another_time(db: None, engine: FakeRuntime) -> None:
    make_node("n1")
    engine.cut()
    survey.survey("n1", thorough=False)
    assert Node.objects.get().images_at is None


def test_the_use_of_a_disk_is_asked_for_now_and_then(db: None, engine: FakeRuntime) -> None:
    make_node("n1")
    engine.disk = DiskUse(5_000, 20_000)
    survey.survey("n1", thorough=False)
    first = Node.objects.get().disk
    assert (first["used"], first["total"]) == (5_000, 20_000)
    engine.disk = DiskUse(6_000)
    survey.survey("n1", thorough=False)
    assert Node.objects.get().disk == first, "it may cost the engine much"
    Node.objects.update(disk={**first, "at": first["at"] - survey.DISK_EVERY // timedelta(milliseconds=1)})
    survey.survey("n1", thorough=False)
    assert {**Node.objects.get().disk, "at": 0} == {"used": 6_000, "total": None, "at": 0}


def test_a_node_that_does_not_add_up_its_disk_keeps_what_was_known(db: None, engine: FakeRuntime) -> None:
    make_node("n1", disk={"used": 1, "total": 2, "at": 3})
    engine.fail_next("disk_use", RuntimeFault("It takes too long.", reason=FaultReason.UNREACHABLE))
    survey.survey("n1", thorough=False)
    assert Node.objects.get().disk == {"used": 1, "total": 2, "at": 3}


def test_it_reads_what_a_container_with_all_gpus_sees() -> None:
    text = "device 1\ndevice 0\ndevice 10\n----\nModel: \t\t NVIDIA H100 80GB\nDevice Minor: \t 1\n----\nIRQ: 4\n"
    assert gpus.parse_listing(text) == [
        {"id": "0", "type": ""},
        {"id": "1", "type": "H100-80GB"},
        {"id": "10", "type": ""},
    ]
    assert gpus.parse_listing("") == []


def test_a_node_without_declared_gpus_has_those_its_engine_hands_out(hosts: Hosts, admin: User) -> None:
    engine = hosts.add("ssh://gpu-02", gpu_ids=frozenset("01"))
    engine.behave(Behaviour(exit_code=0, stdout=(b"device 0\ndevice 1\n",)), contains="/dev/nvidia")
    node = services.register_node(admin, {"name": "gpu-02", "endpoint": "ssh://gpu-02", "gpuType": "A100"})
    assert node.gpus == [{"id": "0", "type": "A100"}, {"id": "1", "type": "A100"}]
    assert engine.list() == []
    hosts.add("ssh://gpu-03", gpu_ids=frozenset("01"))
    declared = services.register_node(admin, {"name": "gpu-03", "endpoint": "ssh://gpu-03", "gpuNumber": 1})
    assert len(declared.gpus) == 1, "what an admin declares holds"
