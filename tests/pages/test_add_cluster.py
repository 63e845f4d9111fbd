"""Adding, changing and removing a Kubernetes cluster on its page, and what the pages of nodes show of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from base.models import User
from clusters.engines.inventory import Fitness
from clusters.models import Cluster, Node
from tests.fakes.runtime import FakeRuntime
from tests.hosts import Hosts
from tests.integration.test_kubernetes_nodes import KUBECONFIG

Browse = Callable[[User | None], Client]
FIELDS = {"name": "lab", "namespace": "longshore-jobs", "port_from": "30000", "port_to": "39999", "network": "host"}


@pytest.fixture
def engine(hosts: Hosts) -> FakeRuntime:
    engine = hosts.add("kubernetes://lab/longshore-jobs")
    engine.add_host("gpu-1", others_cpus=2, others_gpus=1)
    engine.add_host("gpu-2", closed="cordoned in Kubernetes")
    return engine


def steps(answer: Any) -> list[tuple[str, str]]:
    return [(step.state, step.text) for step in answer.context["tested"].steps]


def test_only_admins_open_or_send_it(browse: Browse, alice: User, admin: User, engine: FakeRuntime) -> None:
    browse(admin).post("/add-cluster", {**FIELDS, "action": "add"})
    for path in ("/add-cluster", "/clusters/lab/edit", "/clusters/lab/remove"):
        assert browse(alice).get(path).status_code == 403
        assert browse(alice).post(path, FIELDS).status_code == 403
    assert Cluster.objects.count() == 1


def test_it_tests_everything_saves_nothing_and_adds_with_the_kubeconfig_that_the_test_has_kept(
    browse: Browse, admin: User, engine: FakeRuntime
) -> None:
    client = browse(admin)
    engine.fit = Fitness("1.20.2", (), ("It may not list pods in the whole cluster.",))
    tested = client.post("/add-cluster", {**FIELDS, "action": "test", "kubeconfig": KUBECONFIG})
    assert [state for state, _ in steps(tested)] == ["passed", "passed", "hint", "hint"]
    assert steps(tested)[-1][1] == "2 nodes, 4 GPUs. gpu-2 is cordoned in Kubernetes."
    assert not Cluster.objects.exists() and "abc" not in tested.content.decode()
    added = client.post("/add-cluster", {**FIELDS, "action": "add", "kept": tested.context["form"].kept}, follow=True)
    assert "lab is added: 2 nodes." in added.content.decode()
    assert Cluster.objects.get().tls_dir


def test_what_it_lacks_is_said_one_by_one(browse: Browse, admin: User, engine: FakeRuntime) -> None:
    engine.fit = Fitness("1.20.2", ("It may not create pods.", "It may not list nodes."))
    tested = browse(admin).post("/add-cluster", {**FIELDS, "action": "test"})
    assert steps(tested)[1:3] == [("failed", "It may not create pods."), ("failed", "It may not list nodes.")]
    refused = browse(admin).post("/add-cluster", {**FIELDS, "action": "add"})
    assert refused.status_code == 400 and "It may not list nodes." in refused.content.decode()


def test_it_says_at_the_field_what_is_wrong(browse: Browse, admin: User, engine: FakeRuntime) -> None:
    wrong = {"name": "A b", "namespace": "x y", "selector": "pool", "port_from": "9"}
    page = browse(admin).post("/add-cluster", {**FIELDS, **wrong, "action": "add"})
    assert page.status_code == 400
    assert set(page.context["form"].errors) == {"name", "namespace", "selector", "ports"}
    running = KUBECONFIG.replace("{token: abc}", "{exec: {command: sh}}")
    said = browse(admin).post("/add-cluster", {**FIELDS, "action": "test", "kubeconfig": running})
    assert "exec" in steps(said)[0][1]


def test_nodes_and_their_pages_show_the_cluster_what_others_take_and_why_one_is_closed(
    browse: Browse, admin: User, alice: User, engine: FakeRuntime
) -> None:
    client = browse(admin)
    client.post("/add-cluster", {**FIELDS, "action": "add"})
    nodes = client.get("/nodes").content.decode()
    assert "Kubernetes clusters" in nodes and "cordoned in Kubernetes" in nodes
    assert "/clusters/lab/edit" not in browse(alice).get("/nodes").content.decode()
    assert "others take 2 cores" in client.get("/nodes/lab/gpu-1").content.decode()
    assert "Nothing new starts here" in client.get("/nodes/lab/gpu-2").content.decode()
    for path in ("/nodes/lab/gpu-1/edit", "/nodes/lab/gpu-1/remove"):
        assert client.get(path)["Location"] == "/clusters/lab/edit"
    assert client.post("/nodes/lab/gpu-1/status", {"to": "cordoned"}).status_code == 302
    assert Node.objects.get(name="lab/gpu-1").status == "cordoned"


def test_it_changes_the_choice_of_nodes_and_asks_before_it_removes(
    browse: Browse, admin: User, engine: FakeRuntime
) -> None:
    client = browse(admin)
    engine.add_host("gpu-3", labels={"pool": "gpu"})
    client.post("/add-cluster", {**FIELDS, "action": "add"})
    assert client.post("/clusters/lab/edit", {"selector": "pool=gpu", "action": "save"}).status_code == 302
    assert list(Node.objects.values_list("name", flat=True)) == ["lab/gpu-3"]
    assert "Nothing is removed from the cluster itself" in client.get("/clusters/lab/remove").content.decode()
    assert client.post("/clusters/lab/remove").status_code == 302
    assert not Node.objects.exists()
