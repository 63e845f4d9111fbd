"""Which engine is behind an endpoint: a table of the schemes that endpoints may have, and the open connections.

A process has one connection pool for each engine. Tests put a fake factory in place of the table's.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import SplitResult, urlsplit

from django.utils.module_loading import import_string

from base.core.bulk import one_row
from base.hosts import shared
from clusters.engines import own_ssh
from clusters.engines.inventory import Inventoried, parts_of
from clusters.engines.measuring import Measurable, Unmeasured
from clusters.engines.own_ssh import HostKey
from clusters.engines.runtime import Engine, FaultReason, RuntimeFault
from clusters.models import Node

Factory = Callable[[str, Path | None], Engine]

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,253}[A-Za-z0-9])?")  # a name, an IPv4 or an IPv6 address
_SOCKET = re.compile(r"(/[^/]+)+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_DOCKER = "clusters.engines.docker.runtime.DockerRuntime"
_DOCKER_METER = "clusters.engines.docker.meter.DockerMeter"
_KUBERNETES = "clusters.engines.kubernetes.runtime.KubernetesRuntime"
_LONGEST = 255
_EXAMPLES = "tcp://gpu-01:2376 or ssh://user@gpu-01"


@dataclass(frozen=True, slots=True)
class Scheme:
    """How endpoints of one scheme are written and reached. ``check`` raises ValueError with what is wrong."""

    engine: str  # what runs there, for people
    check: Callable[[str], object]
    # Names of what connects, which is imported late: processes that never touch an engine do not load its library.
    runtime: str
    meter: str  # empty: it does not say what its containers use
    takes_tls: bool = False  # needs TLS keys, unless its host is this one
    is_here: bool = False  # always this host's
    for_many: bool = False  # one endpoint stands for several nodes


def _check_socket(endpoint: str) -> None:
    if not _SOCKET.fullmatch(endpoint.partition("://")[2]):
        raise ValueError("must name a socket by its absolute path, such as unix:///var/run/docker.sock")


def _check_port(endpoint: str) -> None:
    parts = _host_in(endpoint)
    if parts.port is None or parts.username is not None:
        raise ValueError("must name a port and no user, such as tcp://gpu-01:2376")


def _check_login(endpoint: str) -> None:
    user = _host_in(endpoint).username
    if user is not None and not _USER.fullmatch(user):
        raise ValueError("must name a user in plain letters and digits")


def _host_in(endpoint: str) -> SplitResult:
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(f"must be an address such as {_EXAMPLES}") from None
    if not HOST.fullmatch(host) or parts.path or parts.query or parts.fragment or port == 0:
        raise ValueError(f"must be an address such as {_EXAMPLES}, with nothing after it")
    if parts.password is not None:
        raise ValueError("must not carry a password; ssh uses the keys of the user that Longshore runs as")
    return parts


def load() -> None:
    """Import what the first connection takes: it would be late by that."""
    import_string(_DOCKER)


def host_key(endpoint: str) -> HostKey:
    """The host key that the SSH server of an ``ssh://`` endpoint shows. Raises RuntimeFault when it does not answer."""
    from clusters.engines.docker.host_key import host_key

    return host_key(endpoint)


SCHEMES = {
    "unix": Scheme("Docker", _check_socket, _DOCKER, _DOCKER_METER, is_here=True),
    "tcp": Scheme("Docker", _check_port, _DOCKER, _DOCKER_METER, takes_tls=True),
    "ssh": Scheme("Docker", _check_login, _DOCKER, _DOCKER_METER),
    "kubernetes": Scheme("Kubernetes", parts_of, _KUBERNETES, "", for_many=True),
}
_lock = threading.Lock()
_open: dict[tuple[str, str], Engine] = {}
_factory: Factory | None = None  # a test's


def scheme_of(endpoint: str) -> Scheme:
    """ValueError when there is no such scheme."""
    name, mark, _ = endpoint.partition("://")
    if not mark or name not in SCHEMES:
        *some, last = (f"{name}://" for name in SCHEMES)
        raise ValueError(f"must begin with {', '.join(some)} or {last}")
    return SCHEMES[name]


def stands_for_many(endpoint: str) -> bool:
    """Whether the engine at this endpoint stands for several nodes. Then its list shows at once what its events tell,
    and it does not say what its containers use."""
    scheme = SCHEMES.get(endpoint.partition("://")[0])
    return scheme is not None and scheme.for_many


def check_endpoint(endpoint: str) -> str:
    """The endpoint, or ValueError with what is wrong with it, to be put after its name."""
    scheme = scheme_of(endpoint)
    if not endpoint.isprintable():
        raise ValueError("must not contain control characters")
    if len(endpoint) > _LONGEST or any(character.isspace() for character in endpoint):
        raise ValueError(f"must have {_LONGEST} characters at most and no white space")
    scheme.check(endpoint)
    return endpoint


def set_engine_factory(factory: Factory | None) -> None:
    """Connect to all engines by ``factory`` (None: by the table again), and forget those that are open."""
    global _factory
    with _lock:
        _factory = factory
        _open.clear()


def connect(endpoint: str, tls_dir: str | Path | None = None) -> Engine:
    """Raises RuntimeFault when the engine cannot be reached at once."""
    key = (endpoint, str(tls_dir or ""))
    with _lock:
        engine = _open.get(key)
    if engine is None:
        factory: Factory = _factory or import_string(scheme_of(endpoint).runtime)
        new = factory(endpoint, _keys(endpoint, tls_dir))
        with _lock:
            engine = _open.setdefault(key, new)
    return engine


def meter_at(endpoint: str, tls_dir: str | Path | None = None) -> Measurable:
    """A meter of the engine with connections of its own, for one thread. Nothing is sent yet."""
    folder = _keys(endpoint, tls_dir)
    if _factory is not None:
        return cast(Measurable, _factory(endpoint, folder))
    meter = scheme_of(endpoint).meter
    return cast(Measurable, import_string(meter)(endpoint, folder)) if meter else Unmeasured()


def inventory_at(endpoint: str, tls_dir: str | Path | None = None) -> Inventoried:
    """The inventory of an engine that stands for many hosts, with connections of its own, for one thread. Nothing is
    sent yet."""
    folder = _keys(endpoint, tls_dir)
    if _factory is not None:
        return cast(Inventoried, _factory(endpoint, folder))
    from clusters.engines.kubernetes.inventory import KubernetesInventory

    return KubernetesInventory(endpoint, folder)


def _keys(endpoint: str, tls_dir: str | Path | None) -> Path | None:
    """The folder with the keys by which the node's engine is reached."""
    if endpoint.startswith("ssh://"):
        return own_ssh.folder()
    return shared.tls_here(tls_dir) if tls_dir else None


def forget(endpoint: str, tls_dir: str | Path | None = None) -> None:
    """Open no more with these keys: they were only tried."""
    with _lock:
        _open.pop((endpoint, str(tls_dir or "")), None)


def runtime_for(node: Node | str) -> Engine:
    """Return the engine of a node. Raises RuntimeFault(GONE) for a name that is no longer registered."""
    if isinstance(node, Node):
        return connect(node.endpoint, node.tls_dir or None)
    found = one_row("SELECT endpoint, tls_dir FROM clusters_node WHERE name = %s", node)
    if not found:
        raise RuntimeFault(f"Node {node} is not registered any more.", reason=FaultReason.GONE, permanent=True)
    return connect(found[0], found[1] or None)
