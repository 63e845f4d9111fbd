"""/api/v1/nodes: who may, what is refused with which words, and what comes back."""

from __future__ import annotations

import json
import re
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework.test import APIClient

from base.models import AuditEvent, User
from base.wakes import wake
from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.engines.sample_image import SAMPLE_IMAGE
from clusters.models import Allocation, Node
from clusters.nodes import probe, trial
from tests.fakes.runtime import Behaviour
from tests.helpers import LIMIT
from tests.hosts import Hosts
from tests.keys import make_keys

URL = "/api/v1/nodes"
Api = Callable[[User | None], APIClient]


@pytest.fixture
def root(api: Api, admin: User) -> APIClient:
    return api(admin)


@pytest.fixture
def gpu01(hosts: Hosts, root: APIClient) -> Node:
    hosts.add("ssh://ops@gpu-01", cpus=16, memory_mb=64_000)
    body = {"name": "gpu-01", "endpoint": "ssh://ops@gpu-01", "gpuNumber": 4, "gpuType": "A100"}
    assert root.post(URL, body, format="json").status_code == 201
    return Node.objects.get()


def take(node: Node, owner: str, **what: Any) -> None:
    values = {"vc": "default", "cpus": 2, "memory_mb": 1000, "gpu_ids": ["1"], "ports": [30000]} | what
    Allocation.objects.create(owner=owner, node=node, **values)


# --- registering ------------------------------------------------------------------------------------------------------


def test_a_body_nested_too_deep_is_told(api: Callable[..., APIClient], admin: User) -> None:
    answer = api(admin).post(URL, "[" * 49_000, content_type="application/json")
    assert (answer.status_code, answer.json()["message"]) == (400, "The body is nested too deep.")


def test_it_registers_a_node_with_what_its_engine_reports(gpu01: Node, root: APIClient) -> None:
    answer = root.get(f"{URL}/gpu-01").json()
    seen = answer.pop("lastSeen")
    assert abs(seen / 1000 - timezone.now().timestamp()) < LIMIT
    assert answer == {
        "name": "gpu-01",
        "endpoint": "ssh://ops@gpu-01",
        "address": "gpu-01",
        "status": "active",
        "health": "ready",
        "healthReason": "",
        "resourcesTotal": {"vCores": 16, "memory": 64_000, "GPUs": 4},
        "resourcesUsed": {"vCores": 0, "memory": 0, "GPUs": 0},
        "gpus": [{"id": str(n), "type": "A100", "inUse": False, "held": False, "free": True} for n in range(4)],
        "portRange": [30000, 39999],
        "fixedPorts": [],
        "network": "host",
        "gpuExporter": "",
        "labels": {},
        "dockerVersion": "20.10-fake",
        "marks": [],
    }


def test_it_puts_the_sample_image_on_a_new_node_and_knows_its_images(hosts: Hosts, root: APIClient) -> None:
    engine = hosts.add("ssh://gpu-02", images=frozenset({"ubuntu"}))
    assert root.post(URL, {"name": "n", "endpoint": "ssh://gpu-02"}, format="json").status_code == 201
    assert SAMPLE_IMAGE in engine.images
    assert Node.objects.get().images == [SAMPLE_IMAGE, "ubuntu:latest"]


def test_it_registers_a_node_without_the_gpus_it_promises_and_says_so(hosts: Hosts, root: APIClient) -> None:
    engine = hosts.add("ssh://gpu-02", gpu_ids=frozenset("01"))
    body = {"name": "gpu-02", "endpoint": "ssh://gpu-02", "gpuNumber": 8}
    answer = root.post(URL, body, format="json")
    said = "Node gpu-02 cannot hand out its 8 GPUs: The node has no GPU 2."
    assert (answer.status_code, answer.json()["marks"]) == (
        201,
        [{"kind": "gpus", "sentence": said, "until": None}],
    )
    assert engine.list() == [], "the trial leaves nothing behind"
    answer = root.put(f"{URL}/gpu-02", {"gpuNumber": 2}, format="json")
    assert answer.json()["marks"] == []


@pytest.mark.parametrize(
    ("url", "stderr", "said"),
    [
        (
            "http://127.0.0.1:8080",
            b"wget: can't connect to remote host (127.0.0.1): Connection refused\n",
            "Containers on node n cannot reach the portal at http://127.0.0.1:8080: can't connect to remote host"
            " (127.0.0.1): Connection refused. Jobs there get no files. Set LONGSHORE_BIND to an address of this host"
            " that the node reaches, or to 0.0.0.0:8080 for all of them and LONGSHORE_PUBLIC_URL to one of these, and"
            " start Longshore again.",
        ),
        (
            "http://portal:80",
            b"",
            "Containers on node n cannot reach the portal at http://portal:80: something else answers there. Jobs there"
            " get no files. Set LONGSHORE_PUBLIC_URL to an address that the node reaches, or open the way.",
        ),
    ],
)
def test_it_registers_a_node_that_cannot_reach_the_portal_and_says_what_to_set(
    hosts: Hosts, root: APIClient, settings: Any, monkeypatch: pytest.MonkeyPatch, url: str, stderr: bytes, said: str
) -> None:
    settings.PUBLIC_URL, settings.BIND_PORT = url, 8080
    monkeypatch.setattr(trial, "portal_answers", lambda: True)  # which needs a web server
    monkeypatch.setattr(trial, "PATIENCE", LIMIT)
    engine = hosts.add("ssh://gpu-02")
    engine.behave(Behaviour(exit_code=1, stderr=(stderr,) if stderr else ()), contains="wget")
    answer = root.post(URL, {"name": "n", "endpoint": "ssh://gpu-02"}, format="json")
    assert (answer.status_code, [mark["sentence"] for mark in answer.json()["marks"]]) == (201, [said])


def test_it_registers_a_node_on_which_nothing_can_be_tried(hosts: Hosts, root: APIClient) -> None:
    engine = hosts.add("ssh://gpu-02")
    for _ in ("for its GPUs", "for the sample image", "in its survey"):
        engine.fail_next("image_names", RuntimeFault("No.", reason=FaultReason.REFUSED))
    assert root.post(URL, {"name": "n", "endpoint": "ssh://gpu-02"}, format="json").status_code == 201
    assert Node.objects.get().surveyed_at is None, "the scheduler has it done soon"


def test_it_takes_every_field_of_the_body(hosts: Hosts, root: APIClient) -> None:
    hosts.add("unix:///run/other.sock")
    body = {
        "name": "n.1_x",
        "endpoint": "unix:///run/other.sock",
        "address": "10.0.0.7",
        "gpus": [{"id": "GPU-5ad1", "type": "V100"}, {"id": "7"}],
        "gpuType": "K80",
        "cpuNumber": 3,
        "memoryMB": 4096,
        "portRange": [20000, 20000],
        "fixedPorts": [[80, 80], [6000, 6100]],
        "network": "bridge",
        "gpuExporter": "http://gpu-02:9400/metrics",
        "labels": {"rack": "b 2", "site/room": "", "topology": "hall 1/rack3"},
    }
    answer = root.post(URL, body, format="json").json()
    assert answer["resourcesTotal"] == {"vCores": 3, "memory": 4096, "GPUs": 2}
    assert [(gpu["id"], gpu["type"]) for gpu in answer["gpus"]] == [("GPU-5ad1", "V100"), ("7", "K80")]
    told = ("address", "portRange", "fixedPorts", "network", "gpuExporter", "labels")
    assert {key: answer[key] for key in told} == {key: body[key] for key in told}


def test_it_keeps_tls_keys_in_private_files_and_never_gives_them_back(hosts: Hosts, root: APIClient) -> None:
    hosts.add("tcp://gpu-02:2376")
    body = {"name": "gpu-02", "endpoint": "tcp://gpu-02:2376", "tls": make_keys()}
    answer = root.post(URL, body, format="json")
    assert answer.status_code == 201
    folder = Path(Node.objects.get().tls_dir)
    assert folder.parent == Path(settings.HOME) / "secrets" / "nodes" / "gpu-02"
    assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {
        "ca.pem": 0o600,
        "cert.pem": 0o600,
        "key.pem": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    told = json.dumps([answer.json(), root.get(URL).json(), list(AuditEvent.objects.values_list("data", flat=True))])
    assert "PRIVATE KEY" not in told and "BEGIN" not in told and str(folder) not in told
    root.delete(f"{URL}/gpu-02")
    assert not folder.parent.exists()


def test_it_answers_400_with_the_reason_when_the_engine_does_not_answer(hosts: Hosts, root: APIClient) -> None:
    body = {"name": "x", "endpoint": "tcp://nowhere:2376", "tls": make_keys()}
    answer = root.post(URL, body, format="json")
    assert answer.status_code == 400
    assert "Nothing listens at tcp://nowhere:2376" in answer.json()["message"]
    assert not Node.objects.exists()
    assert not (Path(settings.HOME) / "secrets" / "nodes" / "x").exists()


def test_it_gives_up_on_an_engine_that_hangs(hosts: Hosts, root: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    engine = hosts.add("ssh://frozen")
    monkeypatch.setattr(engine, "info", lambda: release.wait() and engine.engine)
    monkeypatch.setattr(probe, "DEADLINE", 0.05)
    try:
        answer = root.post(URL, {"name": "x", "endpoint": "ssh://frozen"}, format="json")
    finally:
        release.set()
    assert answer.status_code == 400
    assert "does not answer within" in answer.json()["message"]


@pytest.mark.parametrize(("flag", "word"), [("swarm_worker", "Swarm"), ("kubelet", "kubelet")])
def test_it_refuses_a_host_that_somebody_else_schedules(hosts: Hosts, root: APIClient, flag: str, word: str) -> None:
    engine = hosts.add("ssh://shared")
    engine.engine = replace(engine.engine, **{flag: True})
    answer = root.post(URL, {"name": "x", "endpoint": "ssh://shared"}, format="json")
    assert answer.status_code == 400
    assert word in answer.json()["message"]


def test_it_refuses_the_same_engine_twice(gpu01: Node, hosts: Hosts, root: APIClient) -> None:
    hosts.add("ssh://alias").engine = hosts["ssh://ops@gpu-01"].engine
    answer = root.post(URL, {"name": "gpu-1b", "endpoint": "ssh://alias"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "ConflictNodeError")
    assert "is node gpu-01 already" in answer.json()["message"]


def test_it_refuses_a_name_twice(gpu01: Node, hosts: Hosts, root: APIClient) -> None:
    hosts.add("ssh://second")
    answer = root.post(URL, {"name": "gpu-01", "endpoint": "ssh://second"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "ConflictNodeError")


GOOD = {"name": "x", "endpoint": "ssh://x"}
WRONG: list[tuple[Any, str]] = [
    ([], "must be a JSON object"),
    (None, "must be a JSON object"),
    ("x", "must be a JSON object"),
    ({}, '"name" is required'),
    ({"name": "x"}, '"endpoint" is required'),
    (GOOD | {"name": 1}, '"name" must be a string'),
    (GOOD | {"name": ""}, '"name" must begin'),
    (GOOD | {"name": "../x"}, '"name" must begin'),
    (GOOD | {"name": "a" * 64}, '"name" must begin'),
    (GOOD | {"name": "x\n"}, '"name" must begin'),
    (GOOD | {"name": "x\0"}, '"name" must begin'),
    (GOOD | {"colour": "red"}, '"colour" is not a known field'),
    (GOOD | {"endpoint": "http://x:2375"}, '"endpoint" must begin with unix://'),
    (GOOD | {"endpoint": "npipe:////./pipe/docker"}, '"endpoint" must begin with unix://'),
    (GOOD | {"endpoint": "unix://relative"}, "absolute path"),
    (GOOD | {"endpoint": "tcp://x"}, "must name a port"),
    (GOOD | {"endpoint": "tcp://x:99999"}, '"endpoint" must be an address'),
    (GOOD | {"endpoint": "tcp://x:0"}, '"endpoint" must be an address'),
    (GOOD | {"endpoint": "tcp://[::1"}, '"endpoint" must be an address'),
    (GOOD | {"endpoint": "tcp://:2376"}, '"endpoint" must be an address'),
    (GOOD | {"endpoint": "tcp://x:2376/v1"}, "with nothing after it"),
    (GOOD | {"endpoint": "ssh://me:secret@x"}, "must not carry a password"),
    (GOOD | {"endpoint": "ssh://-oProxyCommand=x@y"}, "plain letters"),
    (GOOD | {"endpoint": "ssh://-x"}, '"endpoint" must be an address'),
    (GOOD | {"endpoint": "ssh://x" * 60}, "255 characters"),
    (GOOD | {"endpoint": "tcp://x:2376"}, '"tls" is required for a tcp:// endpoint'),
    (GOOD | {"endpoint": "tcp://127.0.0.2:2376"}, '"tls" is required for a tcp:// endpoint'),
    (GOOD | {"endpoint": "tcp://x:2376", "tls": {"ca": "a", "cert": "b"}}, '"tls.key" is required'),
    (GOOD | {"endpoint": "tcp://x:2376", "tls": {"ca": "a", "cert": "b", "key": "c"}}, '"tls.ca" is not a cert'),
    (GOOD | {"tls": {"ca": "a", "cert": "b", "key": "c"}}, '"tls" belongs to a tcp:// endpoint'),
    (GOOD | {"address": "a b"}, '"address" must be a host name'),
    (GOOD | {"gpuNumber": -1}, '"gpuNumber" must be 0 or more'),
    (GOOD | {"gpuNumber": "4"}, '"gpuNumber" must be a whole number'),
    (GOOD | {"gpuNumber": True}, '"gpuNumber" must be a whole number'),
    (GOOD | {"gpuNumber": 1.0}, '"gpuNumber" must be a whole number'),
    (GOOD | {"gpuNumber": 10**30}, '"gpuNumber" must be'),
    (GOOD | {"gpuNumber": None}, '"gpuNumber" must not be null'),
    (GOOD | {"gpuNumber": 1, "gpus": []}, "not both"),
    (GOOD | {"gpus": "0,1"}, '"gpus" must be a list'),
    (GOOD | {"gpus": [0]}, '"gpus.0" must be an object'),
    (GOOD | {"gpus": [{"id": 0}]}, '"gpus.0.id" must be a string'),
    (GOOD | {"gpus": [{"id": ""}]}, '"gpus.0.id" must not be empty'),
    (GOOD | {"gpus": [{"id": "0", "typ": "A100"}]}, '"gpus.0.typ" is not a known field'),
    (GOOD | {"gpus": [{"id": "0"}, {"id": "0"}]}, "names an id twice"),
    (GOOD | {"gpuType": "A 100"}, '"gpuType" must not contain white space'),
    (GOOD | {"gpuType": "\ud800"}, '"gpuType" must'),
    (GOOD | {"cpuNumber": 0}, '"cpuNumber" must be 1 or more'),
    (GOOD | {"memoryMB": 2**31}, '"memoryMB" must be 2147483647 or less'),
    (GOOD | {"portRange": "30000-30010"}, '"portRange" must be a list'),
    (GOOD | {"portRange": [30000]}, '"portRange" must have 2 entries'),
    (GOOD | {"portRange": [30000, 30001, 30002]}, '"portRange" must have 2 entries at most'),
    (GOOD | {"portRange": [80, 30000]}, '"portRange.0" must be 1024 or more'),
    (GOOD | {"portRange": [30000, 70000]}, '"portRange.1" must be 65535 or less'),
    (GOOD | {"portRange": [30001, 30000]}, '"portRange" must go up'),
    (GOOD | {"fixedPorts": [[80, 22]]}, '"fixedPorts.0" must go up'),
    (GOOD | {"fixedPorts": [[0, 22]]}, '"fixedPorts.0.0" must be 1 or more'),
    (GOOD | {"fixedPorts": [80]}, '"fixedPorts.0" must be a list'),
    (GOOD | {"network": "overlay"}, "\"network\" must be 'host' or 'bridge'"),
    *(
        (GOOD | {"gpuExporter": text}, '"gpuExporter" must be an address such as http://gpu-01:9400/metrics')
        for text in (
            "gpu-01:9400",
            "file:///etc/passwd",
            "http://",
            "http://a:b@gpu-01/",
            "http://gpu-01:x/",
            "http://g/?q",
        )
    ),
    (GOOD | {"gpuExporter": "http://gpu-01/a b"}, '"gpuExporter" must not contain white space'),
    (GOOD | {"labels": ["a"]}, '"labels" must be an object'),
    (GOOD | {"labels": {"a": 1}}, '"labels.a" must be a string'),
    (GOOD | {"labels": {"a": "b\0"}}, '"labels.a" must not contain control characters; it has U+0000 at position 2'),
    (GOOD | {"gpuType": "A100\u202e"}, '"gpuType" must not contain control characters; it has U+202E at position 5'),
    *(
        (GOOD | {"labels": {"topology": path}}, '"labels" must have as "topology" a path such as hall1/rack3')
        for path in ("", "/hall1", "hall1//rack3", "hall1/ rack3", "/".join("a" * 17))
    ),
    (GOOD | {"labels": {"a b": "c"}}, '"labels" must have keys'),
]


@pytest.mark.parametrize(("body", "message"), WRONG, ids=range(len(WRONG)))
def test_it_answers_400_in_plain_words(hosts: Hosts, root: APIClient, body: Any, message: str) -> None:
    answer = root.post(URL, json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
    assert message in answer.json()["message"]
    assert not Node.objects.exists()


@pytest.mark.parametrize(
    "text", ["{", "", '{"name": NaN}', "[" * 100_000, '{"gpuNumber": 1' + "0" * 5000 + "}", "\xff"]
)
def test_it_answers_400_to_text_that_is_no_json(root: APIClient, text: str) -> None:
    answer = root.post(URL, text.encode("latin-1"), content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_it_names_several_problems_at_once(root: APIClient) -> None:
    message = root.post(URL, GOOD | {"cpuNumber": 0, "network": 5}, format="json").json()["message"]
    assert '"cpuNumber"' in message and '"network"' in message


# --- who may ----------------------------------------------------------------------------------------------------------

WRITES = [("post", URL), ("put", f"{URL}/gpu-01"), ("delete", f"{URL}/gpu-01"), ("put", f"{URL}/gpu-01/status")]


@pytest.mark.parametrize(("method", "url"), WRITES)
@pytest.mark.parametrize("body", [b"{", b"{}", b'{"nodeStatus": "cordoned"}'])
def test_it_lets_only_admins_write(gpu01: Node, api: Api, alice: User, method: str, url: str, body: bytes) -> None:
    for user, status, code in ((None, 401, "UnauthorizedUserError"), (alice, 403, "ForbiddenUserError")):
        answer = getattr(api(user), method)(url, body, content_type="application/json")
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert Node.objects.get().status == "active"


def test_it_shows_nodes_to_users_and_to_guests_only_where_all_is_open(
    gpu01: Node, api: Api, alice: User, settings: Any
) -> None:
    for url in (URL, f"{URL}/gpu-01"):
        assert api(alice).get(url).status_code == 200
        for anonymous, status in (("jobs", 401), ("none", 401), ("all", 200)):
            settings.ANONYMOUS_READ = anonymous
            assert api(None).get(url).status_code == status


def test_it_answers_on_the_second_base_path_too(gpu01: Node, root: APIClient) -> None:
    assert root.get("/rest-server/api/v1/nodes").json()[0]["name"] == "gpu-01"


# --- reading ----------------------------------------------------------------------------------------------------------


def test_it_sums_what_is_used_and_marks_gpus_in_use_and_held(gpu01: Node, root: APIClient) -> None:
    take(gpu01, "1", gpu_ids=["0", "1"])
    take(gpu01, "2", gpu_ids=["2"], cpus=3)
    Node.objects.update(held={"gpus": ["3"], "ports": [30001]})
    answer = root.get(URL).json()[0]
    assert answer["resourcesUsed"] == {"vCores": 5, "memory": 2000, "GPUs": 3}
    assert [(gpu["inUse"], gpu["held"]) for gpu in answer["gpus"]] == [(True, False)] * 3 + [(False, True)]
    assert answer["health"] == "quarantined"
    assert answer["healthReason"] == "A container that should not be there still has GPU 3 and port 30001."


def test_it_asks_the_database_as_often_for_many_nodes_as_for_one(
    gpu01: Node, root: APIClient, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        values = {"endpoint": f"ssh://n{number}", "address": "a", "cpus": 1, "memory_mb": 1}
        take(Node.objects.create(name=f"n{number}", **values), f"n{number}")
    with django_assert_max_num_queries(5):
        assert len(root.get(URL).json()) == 21


@pytest.mark.parametrize(
    ("method", "url"),
    [("get", ""), ("put", ""), ("delete", ""), ("put", "/status")],
    ids=["get", "put", "delete", "st"],
)
def test_it_answers_404_for_an_unknown_node(root: APIClient, method: str, url: str) -> None:
    answer = getattr(root, method)(f"{URL}/nobody{url}", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (404, "NoNodeError")


# --- changing, status, removing ---------------------------------------------------------------------------------------


def test_it_changes_what_the_body_names_and_keeps_the_rest(gpu01: Node, root: APIClient) -> None:
    take(gpu01, "1", gpu_ids=["3"], cpus=8)
    body = {"name": "gpu-01", "gpuNumber": 2, "cpuNumber": 4, "portRange": [31000, 31999], "labels": {"a": "b"}}
    answer = root.put(f"{URL}/gpu-01", body, format="json")
    assert answer.status_code == 200, answer.json()
    node = answer.json()
    assert node["resourcesTotal"] == {"vCores": 4, "memory": 64_000, "GPUs": 2}
    assert (node["portRange"], node["labels"], node["endpoint"]) == ([31000, 31999], {"a": "b"}, "ssh://ops@gpu-01")


def test_it_can_name_the_type_of_the_gpus_alone(gpu01: Node, root: APIClient) -> None:
    gpus = root.put(f"{URL}/gpu-01", {"gpuType": "H100"}, format="json").json()["gpus"]
    assert {gpu["type"] for gpu in gpus} == {"H100"} and len(gpus) == 4


def test_it_does_not_ask_the_engine_unless_the_endpoint_changes(gpu01: Node, hosts: Hosts, root: APIClient) -> None:
    hosts["ssh://ops@gpu-01"].cut()
    assert root.put(f"{URL}/gpu-01", {"memoryMB": 100}, format="json").status_code == 200
    answer = root.put(f"{URL}/gpu-01", {"endpoint": "ssh://ops@gpu-01"}, format="json")
    assert (answer.status_code, "does not answer" in answer.json()["message"]) == (400, True)


def test_it_moves_to_another_way_to_the_same_engine_while_tasks_run(gpu01: Node, hosts: Hosts, root: APIClient) -> None:
    take(gpu01, "1")
    hosts.add("tcp://10.0.0.1:2376").engine = hosts["ssh://ops@gpu-01"].engine
    body = {"endpoint": "tcp://10.0.0.1:2376", "tls": make_keys()}
    answer = root.put(f"{URL}/gpu-01", body, format="json")
    assert (answer.status_code, answer.json()["address"]) == (200, "10.0.0.1")
    assert Path(Node.objects.get().tls_dir, "key.pem").is_file()
    back = root.put(f"{URL}/gpu-01", {"endpoint": "ssh://ops@gpu-01"}, format="json")
    assert back.status_code == 200 and Node.objects.get().tls_dir == ""
    assert not (Path(settings.HOME) / "secrets" / "nodes" / "gpu-01").exists()


def test_it_refuses_another_engine_while_tasks_run(gpu01: Node, hosts: Hosts, root: APIClient) -> None:
    take(gpu01, "1")
    hosts.add("ssh://other")
    answer = root.put(f"{URL}/gpu-01", {"endpoint": "ssh://other"}, format="json")
    assert (answer.status_code, "is another engine" in answer.json()["message"]) == (409, True)
    assert Node.objects.get().endpoint == "ssh://ops@gpu-01"


def test_it_replaces_keys_and_forgets_the_old_ones(hosts: Hosts, root: APIClient) -> None:
    hosts.add("tcp://g:2376")
    root.post(URL, {"name": "g", "endpoint": "tcp://g:2376", "tls": make_keys()}, format="json")
    before = Path(Node.objects.get().tls_dir)
    assert root.put(f"{URL}/g", {"tls": make_keys()}, format="json").status_code == 200
    after = Path(Node.objects.get().tls_dir)
    assert after != before and after.is_dir() and not before.exists()


def test_it_does_not_rename(gpu01: Node, root: APIClient) -> None:
    answer = root.put(f"{URL}/gpu-01", {"name": "gpu-1"}, format="json")
    assert (answer.status_code, "keeps its name" in answer.json()["message"]) == (400, True)


@pytest.mark.parametrize("status", ["cordoned", "draining", "active"])
def test_it_sets_the_status(gpu01: Node, root: APIClient, status: str) -> None:
    answer = root.put(f"{URL}/gpu-01/status", {"nodeStatus": status}, format="json")
    assert (answer.status_code, answer.json()["status"]) == (200, status)


@pytest.mark.parametrize("body", [{}, {"nodeStatus": "gone"}, {"nodeStatus": 1}, {"status": "active"}, [], None])
def test_it_refuses_an_unknown_status(gpu01: Node, root: APIClient, body: Any) -> None:
    answer = root.put(f"{URL}/gpu-01/status", json.dumps(body), content_type="application/json")
    assert answer.status_code == 400


def test_it_removes_a_node_only_when_nothing_is_on_it(gpu01: Node, root: APIClient) -> None:
    take(gpu01, "1")
    take(gpu01, "2", gpu_ids=[])
    answer = root.delete(f"{URL}/gpu-01")
    assert (answer.status_code, answer.json()["code"]) == (409, "ConflictNodeError")
    assert re.match(r"2 tasks run on node gpu-01\. Cordon", answer.json()["message"])
    Allocation.objects.all().delete()
    assert root.delete(f"{URL}/gpu-01").status_code == 200
    assert not Node.objects.exists()


def test_it_writes_down_who_did_it_and_wakes_scheduler_and_pages(
    gpu01: Node, root: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    monkeypatch.setattr(wake, "notify", lambda *topics: woken.extend(topics))
    root.put(f"{URL}/gpu-01", {"memoryMB": 100}, format="json")
    root.put(f"{URL}/gpu-01/status", {"nodeStatus": "cordoned"}, format="json")
    root.delete(f"{URL}/gpu-01")
    rows = AuditEvent.objects.filter(object="gpu-01").values_list("actor", "action", "ip")
    actions = ["node registered", "node changed", "node status set", "node removed"]
    assert list(rows.order_by("id")) == [("admin", action, "127.0.0.1") for action in actions]
    assert woken == ["scheduler", "pages"] * 3
