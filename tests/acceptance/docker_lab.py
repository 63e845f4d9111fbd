"""What tests of the Docker engine work with: a runtime by one of the ways in, and the engine behind it."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress
from typing import Any

import docker
from docker.errors import APIError

from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.sample_image import SAMPLE_IMAGE
from tests.bed.docker_bed import BedNode
from tests.limits import LIMIT
from tests.shell_lab import ShellLab


class DockerLab(ShellLab):
    runtime: DockerRuntime
    image = SAMPLE_IMAGE
    absent_gpus = ("17",)

    def __init__(self, runtime: DockerRuntime, node: BedNode, absent_image: str = "") -> None:
        self.runtime = runtime
        self.node, self.address = node, node.address
        self.absent_image = absent_image
        self.sdk = docker.DockerClient(base_url=node.unix, version="1.41")

    def read_file(self, name: str, path: str) -> bytes:
        stream, _ = self.sdk.api.get_archive(name, path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            content = tar.extractfile(tar.getmembers()[0])
            assert content is not None
            return content.read()

    def host_config(self, name: str) -> dict[str, Any]:
        return dict(self.sdk.api.inspect_container(name)["HostConfig"])

    def clear(self) -> None:
        """Whatever is on the engine; what somebody else is just removing is as good as gone."""
        for container in self.sdk.api.containers(all=True):
            with suppress(APIError):
                self.sdk.api.remove_container(container["Id"], force=True, v=True)
        self.sdk.close()


def runtime_at(node: BedNode, way: str) -> DockerRuntime:
    folder = {"unix": None, "tls": node.tls_dir, "ssh": node.ssh_dir}[way]
    return DockerRuntime(getattr(node, way), folder, timeout=LIMIT)
