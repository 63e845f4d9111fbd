"""A real cluster as nodes: what is asked of it, its inventory, and the rights of the account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.engines import schemes
from clusters.engines.inventory import Host, Inventoried
from clusters.models import Cluster, Node
from clusters.nodes.kubernetes import services
from portal.core.errors import BadRequest
from portal.models import User
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.helpers import until

FOLDER = Path(__file__).resolve().parents[2] / "Dockerfiles" / "kubernetes"
BODY = {"name": "lab", "endpoint": "kubernetes://", "namespace": NAMESPACE}


@pytest.fixture
def inventory(cluster: KubernetesBed, tmp_path: Path) -> Inventoried:
    (tmp_path / "kubeconfig").write_text(cluster.portal_kubeconfig.read_text())
    return schemes.inventory_at(f"kubernetes://lab/{NAMESPACE}", tmp_path)


@pytest.fixture
def workload(cluster: KubernetesBed) -> Iterator[None]:
    """Somebody else's pod in another namespace, on n1, with a core and a GPU."""
    asks = {"cpu": "1", "memory": "100Mi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "600"], "imagePullPolicy": "Never"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "theirs", "namespace": "default"},
        "spec": {
            "nodeName": "n1",
            "terminationGracePeriodSeconds": 0,
            "containers": [{**container, "resources": {"limits": asks}}],
        },
    }
    cluster.kubectl("apply", "-f", "-", given=json.dumps(pod))
    yield
    cluster.kubectl("delete", "pod", "theirs", "-n", "default", "--force", "--grace-period=0", "--wait=false")


def host(inventory: Inventoried, name: str = "n1") -> Host:
    return next(host for host in inventory.inventory({}, "me").hosts if host.name == name)


def test_the_account_of_the_manifests_lacks_nothing(inventory: Inventoried) -> None:
    fitness = inventory.fitness()
    assert (fitness.version, fitness.lacks, fitness.hints) == ("1.20.2", (), ())


def test_what_others_take_is_counted_and_given_back(
    inventory: Inventoried, cluster: KubernetesBed, workload: None
) -> None:
    free = host(inventory, "n2")
    assert (free.others_cpus, free.others_gpus, len(free.gpus)) == (0, 0, 2)
    taken = host(inventory)
    assert (taken.others_cpus, taken.others_memory_mb, taken.others_gpus) == (1, 100, 1)


def test_a_cordon_ends_the_wait_and_is_seen(inventory: Inventoried, cluster: KubernetesBed) -> None:
    assert not host(inventory).closed
    cluster.kubectl("cordon", "n1")
    try:
        inventory.wait_change(60)
        assert host(inventory).closed == "cordoned in Kubernetes"
    finally:
        cluster.kubectl("uncordon", "n1")
    until(lambda: not host(inventory).closed, 30)


def test_a_dead_node_is_silent_until_it_is_back(inventory: Inventoried, cluster: KubernetesBed) -> None:
    cluster.node_down("n2", "kill")
    try:
        until(lambda: host(inventory, "n2").silent, 90)
    finally:
        cluster.node_up("n2")
    until(lambda: not host(inventory, "n2").silent, 30)


@pytest.mark.django_db
def test_the_selector_chooses_and_every_node_is_a_node(cluster: KubernetesBed, admin: User) -> None:
    kubeconfig = cluster.portal_kubeconfig.read_text()
    services.register_cluster(admin, {**BODY, "kubeconfig": kubeconfig, "nodeSelector": {"bed/node": "n2"}})
    assert list(Node.objects.values_list("name", "cpus", "docker_version")) == [("lab/n2", 2, "v1.20.2")]
    services.change_cluster(admin, "lab", {"nodeSelector": {}})
    assert Node.objects.count() == 2
    services.remove_cluster(admin, "lab")


@pytest.mark.django_db
def test_what_an_account_may_not_do_is_said_before_anything_is_added(cluster: KubernetesBed, admin: User) -> None:
    body = {**BODY, "namespace": "default", "kubeconfig": cluster.portal_kubeconfig.read_text()}
    with pytest.raises(BadRequest) as refused:
        services.register_cluster(admin, body)
    assert "It may not create, delete, get and watch pods in the namespace default" in refused.value.message
    assert "secrets in the namespace default" in refused.value.message
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    "asked",
    [
        ("get", "pod", "x", "-n", "default"),
        ("get", "secrets", "-n", "longshore"),
        ("get", "secrets", "-n", NAMESPACE),
        ("get", "secrets", "-n", "kube-system"),
        ("cordon", "n1"),
        ("delete", "node", "n1"),
        ("create", "namespace", "mine"),
        ("get", "clusterroles"),
        ("get", "--raw", "/api/v1/nodes/n1/proxy/pods"),
        ("create", "configmap", "x", "-n", NAMESPACE),
        ("run", "x", "-n", "longshore", f"--image={IMAGE}"),
        ("run", "x", "-n", "default", f"--image={IMAGE}"),
    ],
)
def test_nothing_beside_the_list_is_allowed(cluster: KubernetesBed, asked: tuple[str, ...]) -> None:
    assert "orbidden" in cluster.kubectl(*asked, check=False, config=cluster.portal_kubeconfig)


def test_the_cluster_would_take_the_manifests_of_longshore_itself(cluster: KubernetesBed) -> None:
    said = cluster.kubectl("apply", "--dry-run=server", "-k", str(FOLDER / "longshore"))
    assert said.count("(server dry run)") == len(said.splitlines()) == 9
