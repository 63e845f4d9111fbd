"""Kubernetes clusters as nodes: registering one, and following what its nodes have."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from base.core import clock
from base.core.errors import BadRequest, ConflictNode, Forbidden
from base.models import AuditEvent, User
from base.wakes.lease import Lease
from clusters.engines.inventory import Fitness
from clusters.engines.runtime import Look
from clusters.models import Allocation, Cluster, Node
from clusters.nodes.kubernetes import services
from clusters.nodes.kubernetes.rows import LEFT
from clusters.nodes.kubernetes.watch import ClusterFollower, Clusters
from clusters.nodes.queries import load_idle_nodes, load_nodes
from clusters.nodes.serializers import node_objects
from clusters.nodes.services import register_node
from portal.backup import after_restore
from tests.builders import make_node
from tests.fakes.runtime import FakeRuntime
from tests.hosts import Hosts

ENDPOINT = "kubernetes://lab/longshore"
BODY: dict[str, Any] = {"name": "lab", "endpoint": "kubernetes://", "namespace": "longshore"}
KUBECONFIG = """
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: u, user: {token: abc}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.fixture
def engine(hosts: Hosts) -> FakeRuntime:
    """A cluster of two hosts."""
    engine = hosts.add(ENDPOINT)
    engine.add_host("gpu-1", labels={"pool": "gpu"})
    engine.add_host("gpu-2", address="10.0.0.2")
    return engine


@pytest.fixture
def follower(engine: FakeRuntime, admin: User) -> ClusterFollower:
    """Follows the registered cluster, as the scheduler that acts."""
    cluster, _ = services.register_cluster(admin, BODY)
    lease = Lease("scheduler")
    assert lease.try_take()
    return ClusterFollower(cluster, lease, lambda: None)


def look_again(follower: ClusterFollower, engine: FakeRuntime) -> None:
    follower.take(engine.inventory(follower.cluster.selector, "here"))


def names() -> list[str]:
    return list(Node.objects.order_by("name").values_list("name", flat=True))


def test_all_nodes_of_a_cluster_become_nodes(engine: FakeRuntime, admin: User) -> None:
    cluster, hints = services.register_cluster(admin, {**BODY, "network": "bridge", "portRange": [31000, 31999]})
    assert names() == ["lab/gpu-1", "lab/gpu-2"] and hints == ()
    node = Node.objects.get(name="lab/gpu-2")
    assert (node.cpus, node.memory_mb, len(node.gpus), node.address) == (8, 16384, 2, "10.0.0.2")
    assert (node.network, node.port_from, node.port_to, node.endpoint) == ("bridge", 31000, 31999, ENDPOINT)
    assert AuditEvent.objects.get(action="cluster registered").object == cluster.name == "lab"


def test_of_the_kubeconfig_only_the_way_in_is_kept_and_only_the_portal_reads_it(
    engine: FakeRuntime, admin: User
) -> None:
    cluster, _ = services.register_cluster(admin, {**BODY, "kubeconfig": KUBECONFIG + "preferences: {note: hello}\n"})
    file = Path(cluster.tls_dir) / "kubeconfig"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "abc" in file.read_text() and "hello" not in file.read_text()
    assert set(Node.objects.values_list("tls_dir", flat=True)) == {cluster.tls_dir}
    services.remove_cluster(admin, "lab")
    assert not file.exists() and names() == []


@pytest.mark.parametrize(
    "user",
    [
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [/tmp/x]}}",
        "{auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}}",
        "{tokenFile: /etc/shadow}",
        "{client-certificate: /etc/shadow, client-key: /etc/shadow}",
    ],
)
def test_a_kubeconfig_that_runs_a_program_or_reads_a_file_is_refused(
    engine: FakeRuntime, admin: User, user: str
) -> None:
    with pytest.raises(BadRequest, match="kubeconfig"):
        services.register_cluster(admin, {**BODY, "kubeconfig": KUBECONFIG.replace("{token: abc}", user)})
    assert not Cluster.objects.exists()


def test_everything_that_it_lacks_is_said_and_nothing_is_kept(engine: FakeRuntime, admin: User, settings: Any) -> None:
    engine.fit = Fitness("1.20.2", ("It may not create pods.", "It may not list nodes."), ("No events.",))
    with pytest.raises(BadRequest) as refused:
        services.register_cluster(admin, {**BODY, "kubeconfig": KUBECONFIG})
    assert refused.value.message == "It may not create pods. It may not list nodes."
    assert not Cluster.objects.exists() and not Node.objects.exists()
    assert not list((Path(settings.HOME) / "secrets" / "nodes").glob("lab/*"))


def test_a_cluster_that_does_not_answer_or_has_no_such_node_is_no_cluster(engine: FakeRuntime, admin: User) -> None:
    with pytest.raises(BadRequest, match="no node with these labels"):
        services.register_cluster(admin, {**BODY, "nodeSelector": {"pool": "other"}})
    engine.cut()
    with pytest.raises(BadRequest, match="does not answer"):
        services.register_cluster(admin, BODY)
    with pytest.raises(BadRequest, match='"name" must have only small letters'):
        services.register_cluster(admin, {**BODY, "name": "a/b"})


def test_the_selector_chooses_the_nodes(engine: FakeRuntime, admin: User) -> None:
    services.register_cluster(admin, {**BODY, "nodeSelector": {"pool": "gpu"}})
    assert names() == ["lab/gpu-1"]
    services.change_cluster(admin, "lab", {"nodeSelector": {}})
    assert names() == ["lab/gpu-1", "lab/gpu-2"]


def test_a_name_is_taken_once(engine: FakeRuntime, admin: User) -> None:
    services.register_cluster(admin, BODY)
    with pytest.raises(ConflictNode):
        services.register_cluster(admin, BODY)


def test_no_cluster_has_the_name_of_a_node_and_no_node_that_of_a_cluster(engine: FakeRuntime, admin: User) -> None:
    make_node("lab")
    with pytest.raises(ConflictNode):
        services.register_cluster(admin, BODY)
    Node.objects.all().delete()
    services.register_cluster(admin, BODY)
    with pytest.raises(ConflictNode):
        register_node(admin, {"name": "lab", "endpoint": "tcp://10.0.0.9:2376"})


def test_only_an_admin_registers_changes_and_removes_a_cluster(engine: FakeRuntime, admin: User, alice: User) -> None:
    with pytest.raises(Forbidden):
        services.register_cluster(alice, BODY)
    services.register_cluster(admin, BODY)
    with pytest.raises(Forbidden):
        services.change_cluster(alice, "lab", {"nodeSelector": {}})
    with pytest.raises(Forbidden):
        services.remove_cluster(alice, "lab")
    assert Cluster.objects.get().selector == {} and Node.objects.count() == 2


def test_what_other_workloads_take_is_not_free_and_comes_back(engine: FakeRuntime, follower: ClusterFollower) -> None:
    engine.add_host("gpu-1", others_cpus=3, others_memory_mb=1000, others_gpus=1)
    look_again(follower, engine)
    view = next(view for view in load_nodes() if view.name == "lab/gpu-1")
    assert (view.used_cpus, view.used_memory_mb, view.used_gpus) == (3, 1000, {"1"})
    told = node_objects([Node.objects.get(name="lab/gpu-1")])[0]
    assert told["resourcesUsed"] == {"vCores": 3, "memory": 1000, "GPUs": 1}
    idle = next(view for view in load_idle_nodes() if view.name == "lab/gpu-1")
    assert (idle.used_cpus, idle.used_gpus) == (0, frozenset())
    engine.add_host("gpu-1")
    look_again(follower, engine)
    assert next(view for view in load_nodes() if view.name == "lab/gpu-1").used_cpus == 0


def test_the_gpus_of_others_are_never_those_that_we_hold(engine: FakeRuntime, follower: ClusterFollower) -> None:
    node = Node.objects.get(name="lab/gpu-1")
    Allocation.objects.create(owner="1", node=node, vc="default", cpus=1, memory_mb=1, gpu_ids=["1"])
    engine.add_host("gpu-1", others_gpus=1)
    look_again(follower, engine)
    assert next(view for view in load_nodes() if view.name == "lab/gpu-1").used_gpus == {"0", "1"}


def test_a_cordoned_or_tainted_node_is_not_offered_and_says_why(engine: FakeRuntime, follower: ClusterFollower) -> None:
    engine.add_host("gpu-1", closed="cordoned in Kubernetes")
    look_again(follower, engine)
    view = next(view for view in load_nodes() if view.name == "lab/gpu-1")
    assert (view.offered, view.why_not) == (False, "cordoned in Kubernetes")
    told = node_objects([Node.objects.get(name="lab/gpu-1")])[0]
    assert (told["health"], told["healthReason"]) == ("ready", "cordoned in Kubernetes")


def test_nodes_that_join_appear_and_those_that_leave_go(engine: FakeRuntime, follower: ClusterFollower) -> None:
    engine.add_host("gpu-3")
    engine.remove_host("gpu-2")
    look_again(follower, engine)
    assert names() == ["lab/gpu-1", "lab/gpu-3"]
    assert set(AuditEvent.objects.filter(actor="scheduler").values_list("action", "object")) == {
        ("node joined", "lab/gpu-3"),
        ("node left", "lab/gpu-2"),
    }


def test_a_node_that_left_with_a_task_stays_until_the_task_is_over(
    engine: FakeRuntime, follower: ClusterFollower
) -> None:
    node = Node.objects.get(name="lab/gpu-2")
    held = Allocation.objects.create(owner="1", node=node, vc="default", cpus=1, memory_mb=1)
    engine.remove_host("gpu-2")
    look_again(follower, engine)
    assert Node.objects.get(name="lab/gpu-2").closed == LEFT
    assert follower.silent["lab/gpu-2"].reason == LEFT
    held.delete()
    look_again(follower, engine)
    assert names() == ["lab/gpu-1"]


def test_a_node_that_its_cluster_does_not_hear_of_counts_as_silent_from_then_on(
    engine: FakeRuntime, follower: ClusterFollower
) -> None:
    Node.objects.filter(name="lab/gpu-1").update(unreachable_since=timezone.now() - timedelta(seconds=40))
    engine.add_host("gpu-1", silent=True)
    look_again(follower, engine)
    clusters = Clusters(follower.lease, lambda: None)
    clusters._followed = {(1, "", "", ""): follower}
    looks = {name: Look(name, clock.monotonic_now(), True) for name in ("lab/gpu-1", "lab/gpu-2")}
    heard = clusters.heard(looks)
    assert heard["lab/gpu-2"] is looks["lab/gpu-2"]
    assert heard["lab/gpu-1"].reachable is False
    assert clock.monotonic_now() - heard["lab/gpu-1"].since >= timedelta(seconds=39)  # type: ignore[operator]
    engine.add_host("gpu-1")
    look_again(follower, engine)
    assert clusters.heard(looks) is looks


def test_a_list_with_nothing_new_writes_only_that_it_was_seen(
    engine: FakeRuntime, follower: ClusterFollower, django_assert_max_num_queries: Any
) -> None:
    look_again(follower, engine)
    with django_assert_max_num_queries(6):  # the transaction and its lease are four of them
        look_again(follower, engine)


def test_a_cluster_in_use_is_not_removed(engine: FakeRuntime, follower: ClusterFollower, admin: User) -> None:
    node = Node.objects.get(name="lab/gpu-1")
    Allocation.objects.create(owner="1", node=node, vc="default", cpus=1, memory_mb=1)
    with pytest.raises(ConflictNode, match="1 task runs on nodes of lab"):
        services.remove_cluster(admin, "lab")
    assert len(names()) == 2


def test_the_api_registers_shows_changes_and_removes_a_cluster_and_its_nodes_have_addresses(
    engine: FakeRuntime, admin: User, alice: User, api: Any, browse: Any
) -> None:
    client = api(admin)
    made = client.post("/api/v1/nodes", {**BODY, "kubeconfig": KUBECONFIG}, format="json")
    assert made.status_code == 201 and "abc" not in made.content.decode()
    assert [node["name"] for node in made.json()["nodes"]] == ["lab/gpu-1", "lab/gpu-2"]
    assert client.get("/api/v1/nodes/lab").json()["namespace"] == "longshore"
    assert client.get("/api/v1/nodes/lab/gpu-1").json()["name"] == "lab/gpu-1"
    cordoned = client.put("/api/v1/nodes/lab/gpu-1/status", {"nodeStatus": "cordoned"}, format="json")
    assert cordoned.json()["status"] == "cordoned"
    changed = client.put("/api/v1/nodes/lab/gpu-1", {"cpuNumber": 99}, format="json")
    assert (changed.status_code, changed.json()["code"]) == (400, "InvalidParametersError")
    assert "Kubernetes cluster says" in changed.json()["message"]
    assert client.delete("/api/v1/nodes/lab/gpu-1").status_code == 409
    assert browse(alice).get("/nodes/lab/gpu-1").status_code == 200
    assert api(alice).put("/api/v1/nodes/lab", {"nodeSelector": {}}, format="json").status_code == 403
    assert api(alice).delete("/api/v1/nodes/lab").status_code == 403
    assert client.delete("/api/v1/nodes/lab").json() == {"message": "cluster lab removed"}
    assert names() == []


def test_a_restored_portal_finds_the_keys_of_a_cluster_in_its_own_folder(
    engine: FakeRuntime, admin: User, settings: Any, tmp_path: Path
) -> None:
    cluster, _ = services.register_cluster(admin, {**BODY, "kubeconfig": KUBECONFIG})
    before, settings.HOME = Path(settings.HOME), tmp_path
    after_restore._follow_home(before)
    moved = tmp_path / Path(cluster.tls_dir).relative_to(before)
    assert Cluster.objects.get().tls_dir == str(moved)
    assert set(Node.objects.values_list("tls_dir", flat=True)) == {str(moved)}
