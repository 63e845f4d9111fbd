"""Says which registry an image comes from, by the grammar of image references. Pure."""

from __future__ import annotations

DOCKER_HUB = "docker.io"
_HUB_NAMES = ("docker.io", "index.docker.io", "registry-1.docker.io", "hub.docker.com", "registry.hub.docker.com")


def registry_of(image: str) -> str:
    """``registry.lab:5000/team/image:1`` -> ``registry.lab:5000``; ``tensorflow/tensorflow`` -> ``docker.io``."""
    first, slash, _ = image.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return _plain(first) if is_host else DOCKER_HUB


def same_registry(server: str, registry: str) -> bool:
    """Whether a server as users write it (``https://index.docker.io/v1/``) is that registry."""
    return _plain(server) == registry


def _plain(server: str) -> str:
    host = server.strip().lower().partition("://")[2] or server.strip().lower()
    host = host.partition("/")[0]
    return DOCKER_HUB if host in _HUB_NAMES else host
