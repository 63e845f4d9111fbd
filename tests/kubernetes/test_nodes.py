"""A real cluster as nodes: what is asked of it, its inventory, and the rights of the account."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml

from base.core.errors import BadRequest
from base.models import User
from clusters.engines import schemes
from clusters.engines.kubernetes import access, spec
from clusters.engines.runtime import LABEL_TASK
from clusters.models import Cluster, Node
from clusters.nodes.kubernetes import services
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.contract_inventory import InventoryContract

FOLDER = Path(__file__).resolve().parents[2] / "Dockerfiles" / "kubernetes"
POD = {"apiVersion": "v1", "kind": "Pod"}
BODY = {"name": "lab", "endpoint": "kubernetes://", "namespace": NAMESPACE}


class ClusterLab:
    def __init__(self, bed: KubernetesBed, folder: Path) -> None:
        self.bed = bed
        text = bed.portal_kubeconfig.read_text()
        (folder / "kubeconfig").write_text(text)
        self.inventory = schemes.inventory_at(f"kubernetes://lab/{NAMESPACE}", folder)
        (folder / "nowhere").mkdir()
        (folder / "nowhere" / "kubeconfig").write_text(text.replace(bed.api, "https://127.0.0.1:9"))
        self.nowhere = schemes.inventory_at(f"kubernetes://lab/{NAMESPACE}", folder / "nowhere")

    def close(self, host: str) -> None:
        self.bed.kubectl("cordon", host)

    def open(self, host: str) -> None:
        self.bed.kubectl("uncordon", host)

    def occupy(self, host: str) -> None:
        """By a pod in another namespace."""
        asks = {"cpu": "1", "memory": "100Mi", "nvidia.com/gpu": "1"}
        container = {"name": "main", "image": IMAGE, "command": ["sleep", "600"], "imagePullPolicy": "Never"}
        spec = {"nodeName": host, "containers": [{**container, "resources": {"limits": asks}}]}
        meta = {"name": "theirs", "namespace": "default"}
        self.bed.kubectl("apply", "-f", "-", given=json.dumps({**POD, "metadata": meta, "spec": spec}))

    def vacate(self, host: str) -> None:
        now = ("--force", "--grace-period=0", "--wait=false")
        self.bed.kubectl("delete", "pod", "theirs", "-n", "default", *now)

    def silence(self, host: str) -> None:
        self.bed.node_down(host, "kill")

    def revive(self, host: str) -> None:
        self.bed.node_up(host)

    def run(self, name: str) -> None:
        """On a host that hears nothing, so it never says that it is gone."""
        meta = {"name": spec.pod_name(name), "namespace": NAMESPACE, "labels": {LABEL_TASK: "1"}}
        container = {"name": "main", "image": IMAGE, "command": ["sleep", "600"], "imagePullPolicy": "Never"}
        pinned = {"nodeName": "nowhere", "containers": [container]}
        self.bed.kubectl("apply", "-f", "-", given=json.dumps({**POD, "metadata": meta, "spec": pinned}))

    def runs(self, name: str) -> bool:
        return spec.pod_name(name) in self.bed.kubectl("-n", NAMESPACE, "get", "pods", "-o", "name")


@pytest.fixture
def inventory_lab(cluster: KubernetesBed, tmp_path: Path) -> ClusterLab:
    return ClusterLab(cluster, tmp_path)


class TestKubernetesInventory(InventoryContract):
    """With the account of the manifests."""


@pytest.mark.django_db
def test_the_selector_chooses_and_every_node_is_a_node(cluster: KubernetesBed, admin: User) -> None:
    kubeconfig = cluster.portal_kubeconfig.read_text()
    services.register_cluster(admin, {**BODY, "kubeconfig": kubeconfig, "nodeSelector": {"bed/node": "n2"}})
    assert list(Node.objects.values_list("name", "cpus", "docker_version")) == [("lab/n2", 2, "v1.20.2")]
    services.change_cluster(admin, "lab", {"nodeSelector": {}})
    assert Node.objects.count() == 2
    services.remove_cluster(admin, "lab")


@pytest.mark.django_db
def test_without_a_kubeconfig_it_is_the_cluster_of_longshore_s_own_pod(
    cluster: KubernetesBed, admin: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the files and variables that a kubelet gives to a pod of the account that the manifests make. The token is
    another one from time to time."""
    known = yaml.safe_load(cluster.portal_kubeconfig.read_text())
    host, _, port = cluster.api.removeprefix("https://").rpartition(":")
    given = {"HOST": host, "PORT": port}
    for name, value in given.items():
        monkeypatch.setenv(f"KUBERNETES_SERVICE_{name}", value)
    ca = base64.b64decode(known["clusters"][0]["cluster"]["certificate-authority-data"])
    for name, content in {"token": known["users"][0]["user"]["token"].encode(), "ca.crt": ca}.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(access, "OWN_ACCOUNT", tmp_path)
    services.register_cluster(admin, BODY)
    assert list(Node.objects.order_by("name").values_list("name", "tls_dir")) == [("lab/n1", ""), ("lab/n2", "")]
    services.remove_cluster(admin, "lab")
    (tmp_path / "token").write_text("not-any-more")
    with pytest.raises(BadRequest, match="does not take"):
        services.register_cluster(admin, BODY)


@pytest.mark.django_db
def test_what_an_account_may_not_do_is_said_before_anything_is_added(cluster: KubernetesBed, admin: User) -> None:
    body = {**BODY, "namespace": "default", "kubeconfig": cluster.portal_kubeconfig.read_text()}
    with pytest.raises(BadRequest) as refused:
        services.register_cluster(admin, body)
    assert "It may not create, delete, get and watch pods in the namespace default" in refused.value.message
    assert "secrets in the namespace default" in refused.value.message
    assert not Cluster.objects.exists()


def test_a_quota_that_is_used_up_is_nothing_that_lacks(inventory_lab: ClusterLab) -> None:
    quota = ("quota", "full", "-n", NAMESPACE)
    inventory_lab.bed.kubectl("create", *quota, "--hard=pods=0,limits.cpu=1,limits.memory=1Gi")
    try:
        assert inventory_lab.inventory.fitness("host").lacks == ()
    finally:
        inventory_lab.bed.kubectl("delete", *quota)


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
