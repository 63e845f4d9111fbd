"""Adding, changing and removing a node: what the test of the connection says, and what only admins may."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from playwright.sync_api import expect

from base.models import User
from clusters.engines import own_ssh, schemes
from clusters.engines.own_ssh import HostKey
from clusters.models import Allocation, Node
from portal.nodes.adding import checks
from tests import http
from tests.builders import make_node
from tests.fakes.runtime import Behaviour
from tests.hosts import Hosts
from tests.keys import make_keys
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
PATHS = ("/add-node", "/nodes/gpu-01/edit", "/nodes/gpu-01/remove", "/nodes/gpu-01/status")


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``known(True)``: what the SSH server's host key is to us."""

    def shown(known: bool | None) -> None:
        monkeypatch.setattr(schemes, "host_key", lambda endpoint: HostKey("h", "ssh-ed25519 AAAA", "SHA256:ab", known))

    return shown


def fields(**more: Any) -> dict[str, Any]:
    plain = {"name": "gpu-09", "kind": "tcp", "tcp_host": "127.0.0.1", "tcp_port": "9", "network": "host"}
    return {**plain, "port_from": "30000", "port_to": "39999", **more}


def steps(answer: Any) -> dict[str, tuple[str, str]]:
    return {step.name: (step.state, step.text) for step in answer.context["tested"].steps}


@pytest.mark.parametrize("path", PATHS)
def test_only_admins_open_or_send_it(browse: Browse, alice: User, path: str) -> None:
    make_node("gpu-01")
    for act in (lambda client: client.get(path), lambda client: client.post(path, fields(to="cordoned"))):
        assert act(browse(alice)).status_code == 403
        assert act(browse(None)).status_code == 302
    assert Node.objects.get().status == "active"


def test_a_form_without_its_token_changes_nothing(admin: User) -> None:
    make_node("gpu-01")
    client = http.Client()
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    for path in PATHS:
        assert client.post(path, fields(to="cordoned")).status_code == 403
    assert Node.objects.get().status == "active"


def test_it_tests_every_step_and_saves_nothing(browse: Browse, admin: User, hosts: Hosts, listening: int) -> None:
    engine = hosts.add(f"tcp://127.0.0.1:{listening}", cpus=16, gpu_ids=frozenset("01"))
    listing = b"device 0\ndevice 1\n----\nModel: \t NVIDIA A100-SXM4\nDevice Minor: \t 1\n"
    engine.behave(Behaviour(exit_code=0, stdout=(listing,)), contains="/dev/nvidia")
    answer = browse(admin).post("/add-node", fields(tcp_port=str(listening), action="test"))
    found = steps(answer)
    assert [state for state, _ in found.values()] == ["passed", "passed", "passed", "passed", "open"], found
    assert found["Docker"][1].startswith("20.10-fake")
    assert found["GPUs"][1] == "2 GPUs A100-SXM4 found."
    assert not Node.objects.exists()
    assert engine.list() == []


@pytest.mark.parametrize(
    ("form", "step", "said", "advice"),
    [
        ({"tcp_port": "9"}, "Reached", "127.0.0.1:9: nothing listens there.", "Check the port"),
        ({"tcp_host": "no-such-host.invalid"}, "Reached", "its name is not known", "Check the spelling"),
        (
            {"kind": "unix", "socket": "/nowhere/docker.sock"},
            "Reached",
            "there is no such socket",
            "Is Docker installed",
        ),
        ({"name": "gpu-01"}, "Name", "A node with the name gpu-01 exists already.", "another name"),
    ],
)
def test_it_says_what_is_wrong_with_the_way(
    browse: Browse, admin: User, hosts: Hosts, form: dict[str, str], step: str, said: str, advice: str
) -> None:
    make_node("gpu-01")
    answer = browse(admin).post("/add-node", fields(**form, action="test"))
    assert (answer.status_code, steps(answer)[step][0]) == (200, "failed")
    assert said in steps(answer)[step][1]
    assert advice in answer.content.decode()
    assert "Not tried." in answer.content.decode()


@pytest.mark.parametrize(("flag", "said"), [("swarm_worker", "docker swarm leave"), ("kubelet", "runs a kubelet")])
def test_it_says_that_somebody_else_schedules_there(
    browse: Browse, admin: User, hosts: Hosts, listening: int, flag: str, said: str
) -> None:
    engine = hosts.add(f"tcp://127.0.0.1:{listening}")
    engine.engine = replace(engine.engine, **{flag: True})
    found = steps(browse(admin).post("/add-node", fields(tcp_port=str(listening), action="test")))
    assert found["Docker"][0] == "failed"
    assert said in found["Docker"][1]


def test_it_wants_keys_for_another_host(browse: Browse, admin: User, hosts: Hosts, monkeypatch: Any) -> None:
    monkeypatch.setattr(checks, "_reached", lambda form: checks.CheckStep("Reached", "passed", ""))
    found = steps(browse(admin).post("/add-node", fields(tcp_host="gpu-09", action="test")))
    assert found["Docker"] == ("failed", "ca.pem, cert.pem and key.pem are needed.")


def test_an_ssh_host_key_is_accepted_by_its_fingerprint_only(
    browse: Browse, admin: User, hosts: Hosts, listening: int, known: Callable[..., None]
) -> None:
    hosts.add(f"ssh://ops@127.0.0.1:{listening}")
    known(False)
    form = fields(kind="ssh", ssh_to="ops@127.0.0.1", ssh_port=str(listening), action="test")
    answer = browse(admin).post("/add-node", form)
    assert steps(answer)["Host key"] == ("failed", "SHA256:ab is not known here yet.")
    assert 'value="SHA256:ab"' in answer.content.decode()
    other = browse(admin).post("/add-node", {**form, "trust": "SHA256:other"})
    assert "another SSH host key now: SHA256:ab" in steps(other)["Host key"][1]
    assert not (own_ssh.folder() / own_ssh.KNOWN_HOSTS).exists()
    browse(admin).post("/add-node", {**form, "trust": "SHA256:ab"})
    assert (own_ssh.folder() / own_ssh.KNOWN_HOSTS).read_text() == "h ssh-ed25519 AAAA\n"


def test_a_changed_ssh_host_key_is_never_accepted(
    browse: Browse, admin: User, hosts: Hosts, listening: int, known: Callable[..., None]
) -> None:
    known(None)
    form = fields(kind="ssh", ssh_to="ops@127.0.0.1", ssh_port=str(listening), trust="SHA256:ab")
    answer = browse(admin).post("/add-node", {**form, "action": "add"})
    assert (answer.status_code, "another SSH host key" in answer.content.decode()) == (400, True)
    assert not Node.objects.exists()


def test_the_public_key_is_one_for_good_and_the_private_one_private(browse: Browse, admin: User) -> None:
    key = own_ssh.public_key()
    assert key.startswith("ssh-ed25519 ")
    assert key == own_ssh.public_key()
    assert key in browse(admin).get("/add-node").content.decode()
    assert (own_ssh.folder() / own_ssh.KEY).stat().st_mode & 0o777 == 0o600


def test_it_adds_a_node_with_uploaded_keys_that_the_test_has_kept(browse: Browse, admin: User, hosts: Hosts) -> None:
    hosts.add("tcp://gpu-09:2376")
    keys = make_keys()
    files = {f"{name}_file": SimpleUploadedFile(f"{name}.pem", text.encode()) for name, text in keys.items()}
    form = fields(tcp_host="gpu-09", tcp_port="2376", gpus="4", gpu_type="A100", labels="rack=b2\nib=yes")
    tested = browse(admin).post("/add-node", {**form, **files, "action": "test"})
    kept = tested.context["form"].kept
    assert keys["key"][30:60] not in tested.content.decode()
    answer = browse(admin).post("/add-node", {**form, "kept": kept, "action": "add"})
    assert answer.status_code == 302, answer.context["form"].errors
    node = Node.objects.get()
    assert (node.labels, len(node.gpus), node.status) == ({"rack": "b2", "ib": "yes"}, 4, "active")
    assert Path(node.tls_dir, "key.pem").read_text() == keys["key"]


def test_it_adds_a_node_and_offers_nothing_of_it_yet(browse: Browse, admin: User, hosts: Hosts) -> None:
    hosts.add("ssh://ops@gpu-09")
    form = fields(kind="ssh", ssh_to="ops@gpu-09", gpus="2", action="cordoned")
    assert browse(admin).post("/add-node", form).status_code == 302
    assert Node.objects.get().status == "cordoned"


def test_it_says_at_the_field_what_is_wrong(browse: Browse, admin: User, hosts: Hosts) -> None:
    form = fields(name="gpu 9", gpus="many", labels="rack", port_from="5", tcp_port="x", action="add")
    answer = browse(admin).post("/add-node", form)
    assert answer.status_code == 400
    assert {"name", "gpus", "labels", "ports", "endpoint"} <= answer.context["form"].errors.keys()
    assert 'value="many"' in answer.content.decode()


def test_bad_keys_and_kept_ones_of_another_admin_are_refused(browse: Browse, admin: User, hosts: Hosts) -> None:
    hosts.add("tcp://gpu-09:2376")
    form = fields(name="gpu-77", tcp_host="gpu-09", tcp_port="2376", action="add")
    for more in ({"ca": "x", "cert": "y", "key": "z"}, {"kept": "forged"}, {"ca": "x"}):
        assert browse(admin).post("/add-node", {**form, **more}).status_code == 400
    assert not Node.objects.exists()
    assert not list(Path(settings.HOME, "secrets", "nodes", "gpu-77").glob("*"))


def test_it_changes_only_what_was_changed(browse: Browse, admin: User, hosts: Hosts) -> None:
    node = make_node("gpu-01", gpus=2, endpoint="ssh://ops@gpu-01")
    form = browse(admin).get("/nodes/gpu-01/edit").context["form"]
    sent = {name: getattr(form, name) for name in ("kind", "ssh_to", "ssh_port", "gpus", "gpu_type", "cpus", "memory")}
    sent |= {"port_from": form.port_from, "port_to": form.port_to, "network": "host", "labels": "rack=b3"}
    assert browse(admin).post("/nodes/gpu-01/edit", {**sent, "name": "other", "action": "save"}).status_code == 302
    node.refresh_from_db()
    assert (node.name, node.labels, node.endpoint) == ("gpu-01", {"rack": "b3"}, "ssh://ops@gpu-01")


def test_another_number_of_gpus_keeps_their_type(browse: Browse, admin: User, hosts: Hosts) -> None:
    hosts.add("ssh://ops@gpu-01")
    node = make_node("gpu-01", gpus=2, endpoint="ssh://ops@gpu-01")
    form = browse(admin).get("/nodes/gpu-01/edit").context["form"]
    sent = {name: getattr(form, name) for name in ("kind", "ssh_to", "ssh_port", "gpu_type", "cpus", "memory")}
    sent |= {"port_from": form.port_from, "port_to": form.port_to, "network": "host", "gpus": "3", "action": "save"}
    assert browse(admin).post("/nodes/gpu-01/edit", sent).status_code == 302
    node.refresh_from_db()
    assert [gpu["type"] for gpu in node.gpus] == ["A100"] * 3


def test_it_asks_before_it_removes_and_refuses_one_in_use(browse: Browse, admin: User) -> None:
    node = make_node("gpu-01", gpus=2)
    held = Allocation.objects.create(owner="1", node=node, vc="default", cpus=1, memory_mb=1)
    client = browse(admin)
    assert "gpu-01 is in use" in client.get("/nodes/gpu-01/remove").content.decode()
    assert client.post("/nodes/gpu-01/remove").status_code == 409
    held.delete()
    assert "Remove gpu-01?" in client.get("/nodes/gpu-01/remove").content.decode()
    assert client.post("/nodes/gpu-01/remove").status_code == 302
    assert not Node.objects.exists()


def test_it_cordons_and_offers_again(browse: Browse, admin: User) -> None:
    make_node("gpu-01")
    client = browse(admin)
    assert "Nothing new starts on it" in client.get("/nodes/gpu-01/status").content.decode()
    client.post("/nodes/gpu-01/status", {"to": "cordoned"})
    assert Node.objects.get().status == "cordoned"
    assert "Offer gpu-01 again?" in client.get("/nodes/gpu-01/status").content.decode()
    client.post("/nodes/gpu-01/status", {"to": "active"})
    assert Node.objects.get().status == "active"
    assert client.post("/nodes/gpu-01/status", {"to": "gone"}).status_code == 400


@pytest.mark.browser
def test_the_browser_shows_each_stage_as_it_ends(
    tab: Callable[..., Tab], admin: User, hosts: Hosts, listening: int
) -> None:
    hosts.add(f"tcp://127.0.0.1:{listening}")
    shown = tab(admin)
    page = shown.open("/add-node")
    page.check("[name=kind][value=tcp]")
    page.fill("[name=name]", "gpu-09")
    page.fill("[name=tcp_host]", "127.0.0.1")
    page.fill("[name=tcp_port]", str(listening))
    page.fill("[name=gpus]", "1")
    page.click("text=Test the connection")
    expect(page.locator("#test")).to_contain_text("Nothing was saved")
    expect(page.locator("#test li")).to_have_count(6)
    shown.check("a test that is over")
    page.click("text=Add node >> visible=true")
    expect(page.locator("main")).to_contain_text("gpu-09 is a node")


@pytest.mark.browser
def test_it_needs_no_script(tab: Callable[..., Tab], admin: User, hosts: Hosts) -> None:
    page = tab(admin, java_script_enabled=False).open("/add-node")
    page.check("[name=kind][value=unix]")
    assert not page.is_visible("[name=ssh_to]")
    page.fill("[name=name]", "here")
    page.fill("[name=socket]", "/nowhere/docker.sock")
    page.click("text=Test the connection")
    assert "there is no such socket" in page.inner_text("#test")
    assert page.input_value("[name=name]") == "here"
