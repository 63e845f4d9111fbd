"""The cluster that the tests of this folder stand on."""

from __future__ import annotations

from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.helpers import until


def test_a_pod_runs_and_a_dead_kubelet_and_a_dead_server_come_back(cluster: KubernetesBed) -> None:
    started = ("run", "echo", f"--image={IMAGE}", "--image-pull-policy=Never", "--restart=Never", "--", "echo", "hello")
    cluster.kubectl("-n", NAMESPACE, *started)
    until(lambda: "hello" in cluster.kubectl("-n", NAMESPACE, "logs", "echo", check=False), 60)
    cluster.node_down("n1", "kill")
    cluster.api_down()
    assert "refused" in cluster.kubectl("get", "nodes", check=False)
    cluster.api_up()
    cluster.node_up("n1")
    assert cluster.kubectl("get", "nodes").count(" Ready ") == 2
    cluster.kubectl("-n", NAMESPACE, "delete", "pod", "echo", "--now")
