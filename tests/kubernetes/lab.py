"""A cluster as the contract tests of engines want it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusters.engines.kubernetes import execs, spec
from clusters.engines.kubernetes.connect import Cluster
from clusters.engines.kubernetes.runtime import KubernetesRuntime
from clusters.engines.runtime import ContainerRequest, File, RuntimeFault
from tests.bed.kubernetes_bed import IMAGE, NAMESPACE, KubernetesBed
from tests.contract_runtime import Program, ended, request, text
from tests.helpers import until

ENDPOINT = f"kubernetes://lab/{NAMESPACE}"


def keys_of(bed: KubernetesBed, folder: Path) -> Path:
    """A folder with the kubeconfig of the account that has few rights."""
    shutil.copy(bed.portal_kubeconfig, folder / "kubeconfig")
    return folder


class KubernetesLab:
    image = IMAGE
    absent_image = "127.0.0.1:9/team/absent:1"
    absent_gpus = ("0", "1", "2")  # a node has two

    def __init__(self, bed: KubernetesBed, folder: Path, *, patience: float = 1.0) -> None:
        self.bed = bed
        self.keys = keys_of(bed, folder)
        self.runtime = KubernetesRuntime(ENDPOINT, self.keys, patience=patience)
        self.cluster = Cluster(ENDPOINT, self.keys)
        self.address = bed.kubectl(
            "get", "node", "n1", "-o", "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}"
        )

    def argv(self, program: Program) -> tuple[str, ...]:
        lines = ["trap '' TERM"] if program.ignores_term else []
        lines += [f"cat {file.path} >&{number}" for number, file in enumerate(self.files(program), 1)]
        if program.exit_code is not None:
            lines.append(f"exit {program.exit_code}")
        else:
            lines.append("while :; do sleep 0.1; done" if program.ignores_term else "exec sleep 1000")
        return ("sh", "-c", "\n".join(lines))

    def files(self, program: Program) -> tuple[File, ...]:
        return File("/said/stdout", program.stdout), File("/said/stderr", program.stderr)

    def read_file(self, name: str, path: str) -> bytes:
        code, said = execs.run(self.cluster, spec.pod_name(name), ["cat", path], 20)
        assert code == 0, said
        return said

    def echo(self, port: int) -> None:
        self.runtime.ensure(request(self, argv=("nc", "-ll", "-p", str(port), "-e", "cat"), ports=(port,), host="n1"))
        until(lambda: self._listens(port), what="nc listens")

    def _listens(self, port: int) -> bool:
        with suppress(OSError), socket.create_connection((self.address, port), 1):
            return True
        return False

    def shell(self, script: str, **more: Any) -> str:
        """Run it to its end in a container; its standard output."""
        asked: ContainerRequest = request(self, argv=("sh", "-c", script), **more)
        self.runtime.ensure(asked)
        ended(self, asked.name)
        return text(self.runtime.logs(asked.name, "stdout")).decode()

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
