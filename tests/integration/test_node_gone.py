"""An admin says that a silent node is gone for good: its page, its route, and what follows from the word."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from base.models import AuditEvent, User
from clusters.engines.runtime import LABEL_TASK, ContainerRequest
from clusters.models import Node
from clusters.nodes.gone import confirm_gone, remove_container
from clusters.nodes.kubernetes import services as kubernetes
from tests.builders import make_node
from tests.cluster import Cluster
from tests.hosts import Hosts

pytestmark = pytest.mark.django_db
ENDPOINT = "kubernetes://lab/longshore"
URL = "/api/v1/nodes/gpu-01/gone"


def test_what_ran_there_is_tried_elsewhere_at_once_and_goes_if_the_node_comes_back(
    cluster: Cluster, admin: User
) -> None:
    cluster.add_node("n1", gpus=1)
    job = cluster.submit(roles=[{"gpuNumber": 1}])
    cluster.settle()
    cluster.add_node("n2", gpus=1)
    cluster.engines["n1"].cut()
    cluster.settle()
    assert cluster.task(job).node == "n1"
    confirm_gone(admin, "n1")
    cluster.settle()
    assert [attempt.exit_code for attempt in cluster.attempts(job)] == [-7111, None]
    assert cluster.task(job).node == "n2"
    assert cluster.job(job).tasks.get(attempt__number=1).collected
    cluster.engines["n1"].heal()
    cluster.settle()
    assert Node.objects.get(name="n1").gone_at is None
    assert cluster.engines["n1"].list() == []
    cluster.finish(job)
    cluster.settle()
    cluster.assert_clean()


def test_a_cluster_forgets_by_force_only_what_was_on_a_silent_node_that_is_gone(hosts: Hosts, admin: User) -> None:
    engine = hosts.add(ENDPOINT)
    engine.add_host("gpu-1")
    kubernetes.register_cluster(admin, {"name": "lab", "endpoint": "kubernetes://", "namespace": "longshore"})
    said: list[tuple[int, int]] = []
    for health, gone_at in (("ready", timezone.now()), ("unreachable", None), ("unreachable", timezone.now())):
        Node.objects.update(health=health, gone_at=gone_at)
        engine.ensure(ContainerRequest("c", "i", ("x",), labels={LABEL_TASK: "1"}))
        remove_container("lab/gpu-1", "c")
        said.append((engine.calls["remove"], engine.calls["forget"]))
    assert said == [(1, 0), (2, 0), (2, 1)] and engine.list() == []


def test_only_an_admin_may_say_so_and_only_of_a_node_that_does_not_answer(api: Any, admin: User, alice: User) -> None:
    node = make_node("gpu-01")
    assert (api(None).put(URL).status_code, api(alice).put(URL).status_code) == (401, 403)
    refused = api(admin).put(URL)
    assert (refused.status_code, refused.json()["message"][:22]) == (409, "gpu-01 answers, so it ")
    Node.objects.update(health="unreachable", health_reason="It does not answer.")
    for _ in range(2):
        said = api(admin).put(URL)
        assert said.status_code == 200
        assert said.json()["healthReason"] == "It does not answer. An admin says that it is gone for good."
    node.refresh_from_db()
    assert node.gone_at is not None
    assert list(AuditEvent.objects.filter(action="node confirmed gone").values_list("actor", "object")) == [
        (admin.username, "gpu-01")
    ]
    assert api(admin).put("/api/v1/nodes/nowhere/gone").status_code == 404


def test_the_page_says_what_the_word_does_before_it_is_given(browse: Any, admin: User, alice: User) -> None:
    make_node("gpu-01")
    client = browse(admin)
    assert "It is gone" not in client.get("/nodes/gpu-01").content.decode()
    assert "gpu-01 answers" in client.get("/nodes/gpu-01/gone").content.decode()
    Node.objects.update(health="unreachable")
    assert "/nodes/gpu-01/gone" in client.get("/nodes/gpu-01").content.decode()
    assert "/nodes/gpu-01/gone" not in browse(alice).get("/nodes/gpu-01").content.decode()
    assert browse(alice).post("/nodes/gpu-01/gone").status_code == 403
    assert "only when the machine is surely off" in client.get("/nodes/gpu-01/gone").content.decode()
    assert client.post("/nodes/gpu-01/gone").status_code == 302
    assert Node.objects.get().gone_at is not None
    assert "/nodes/gpu-01/gone" not in client.get("/nodes/gpu-01").content.decode()
