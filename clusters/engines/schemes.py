"""Which engine a node's name stands for. One connection pool an engine and process; tests put a fake factory in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from clusters.engines.runtime import ContainerRuntime, FaultReason, RuntimeFault
from clusters.models import Node

Factory = Callable[[str, Path | None], ContainerRuntime]

_lock = threading.Lock()
_open: dict[tuple[str, str], ContainerRuntime] = {}


def _docker(endpoint: str, tls_dir: Path | None) -> ContainerRuntime:
    from clusters.engines.docker.runtime import (
        connect,  # late: processes that never touch an engine do not load its library
    )

    return connect(endpoint, tls_dir)


_factory: Factory = _docker


def use(factory: Factory | None) -> None:
    """Replace what makes runtimes (None: the real one again) and forget those made so far."""
    global _factory
    with _lock:
        _factory = factory or _docker
        _open.clear()


def connect(endpoint: str, tls_dir: str | Path | None = None) -> ContainerRuntime:
    """Raises RuntimeFault when the engine cannot be reached at once."""
    key = (endpoint, str(tls_dir or ""))
    with _lock:
        found = _open.get(key)
    if found is None:
        made = _factory(endpoint, Path(tls_dir) if tls_dir else None)
        with _lock:
            found = _open.setdefault(key, made)
    return found


def runtime_for(node: Node | str) -> ContainerRuntime:
    """Raises RuntimeFault(GONE) for a name that is no longer registered."""
    if isinstance(node, str):
        try:
            node = Node.objects.only("endpoint", "tls_dir").get(name=node)
        except Node.DoesNotExist:
            raise RuntimeFault(
                f"Node {node} is not registered any more.", reason=FaultReason.GONE, permanent=True
            ) from None
    return connect(node.endpoint, node.tls_dir or None)
