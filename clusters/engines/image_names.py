"""Reads image references and writes them as engines do. Pure.

``ubuntu``, ``docker.io/library/ubuntu`` and ``ubuntu:latest`` are one image, which an engine lists as the last.
"""

from __future__ import annotations

import re

DOCKER_HUB = "docker.io"
SNAPSHOTS = "localhost/longshore-kept"  # the repository of images of failed containers; no registry has them
_HUB_NAMES = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io")
_ID = re.compile(r"sha(256|384|512):")


def canonical(image: str) -> str:
    """``repository:tag`` or ``repository@digest``, as in an engine's list of images."""
    registry, rest = _split(image)
    name, mark, digest = rest.partition("@")
    repository, colon, tag = name.partition(":")
    if registry == DOCKER_HUB:
        repository = repository.removeprefix("library/")
    else:
        repository = f"{registry}/{repository}"
    return f"{repository}@{digest}" if mark else f"{repository}:{tag if colon else 'latest'}"


def is_snapshot(image: str) -> bool:
    """Whether it was made of a failed container (clusters/nodes/snapshots.py)."""
    return canonical(image).startswith((f"{SNAPSHOTS}:", f"{SNAPSHOTS}@"))


def is_id(image: str) -> bool:
    """Whether engines take this name for the beginning of an image's id. It would then open any image that a node has:
    one of somebody else's container, or one that was pulled with somebody else's password."""
    return _ID.match(canonical(image)) is not None


def registry_of(image: str) -> str:
    """The host, and port if any, that the image comes from."""
    return _split(image)[0]


def _split(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return (DOCKER_HUB if first in _HUB_NAMES else first), rest
    return DOCKER_HUB, image
