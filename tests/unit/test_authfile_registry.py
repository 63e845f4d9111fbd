"""Which registry an image comes from, and whether that is the one of an authFile."""

from __future__ import annotations

import pytest

from clusters.engines.image_names import registry_of
from jobs.containers.delivery import is_of_registry


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", "docker.io"),
        ("tensorflow/tensorflow:2", "docker.io"),
        ("docker.io/library/busybox", "docker.io"),
        ("registry.lab/team/image", "registry.lab"),
        ("registry.lab:5000/image@sha256:00", "registry.lab:5000"),
        ("localhost/image", "localhost"),
        ("image:5000", "docker.io"),
    ],
)
def test_an_image_names_its_registry(image: str, registry: str) -> None:
    assert registry_of(image) == registry


@pytest.mark.parametrize("server", ["docker.io", "https://index.docker.io/v1/", "index.docker.io", " Docker.IO "])
def test_docker_hub_has_several_names(server: str) -> None:
    assert is_of_registry("busybox", server) and not is_of_registry("registry.lab/busybox", server)
