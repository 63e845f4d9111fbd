"""A cluster as the contract tests of engines want it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusters.engines.kubernetes import execs, spec
from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.kubernetes.runtime import KubernetesRuntime
from clusters.engines.runtime import RuntimeFault
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.helpers import LIMIT, until
from tests.shell_lab import ShellLab

ENDPOINT = f"kubernetes://lab/{NAMESPACE}"


def keys_of(bed: KubernetesBed, folder: Path) -> Path:
    """A folder with the kubeconfig of the account that has few rights."""
    shutil.copy(bed.portal_kubeconfig, folder / "kubeconfig")
    return folder


class KubernetesLab(ShellLab):
    runtime: KubernetesRuntime
    image = IMAGE
    absent_image = "127.0.0.1:9/team/absent:1"
    absent_gpus = ("0", "1", "2")  # a node has two
    host = "n1"

    def __init__(self, bed: KubernetesBed, folder: Path, *, patience: float = 1.0) -> None:
        self.bed = bed
        self.keys = keys_of(bed, folder)
        self.runtime = KubernetesRuntime(ENDPOINT, self.keys, timeout=LIMIT, patience=patience)
        self.cluster = ClusterApi(ENDPOINT, self.keys)
        self.address = bed.kubectl(
            "get", "node", self.host, "-o", "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}"
        )

    def read_file(self, name: str, path: str) -> bytes:
        code, said = execs.run(self.cluster, spec.pod_name(name), ["cat", path], LIMIT)
        assert code == 0, said
        return said

    def pod(self, name: str) -> dict[str, Any]:
        return self.cluster.ask("GET", self.cluster.here("pods", spec.pod_name(name)))

    def clear(self) -> None:
        """Whatever is in the namespace goes. Only a test's administrator may delete by force."""
        self.bed.kubectl("-n", NAMESPACE, "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
        with suppress(RuntimeFault):
            until(lambda: not self.runtime.list(), 60, what="an empty namespace")


def lab_on(bed: KubernetesBed, folder: Path) -> Iterator[KubernetesLab]:
    lab = KubernetesLab(bed, folder)
    yield lab
    lab.clear()
