"""Asks an engine, within a deadline, what it is before it becomes a node, and works out the address of its host."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from base.core.errors import BadRequest
from clusters.engines import schemes
from clusters.engines.runtime import EngineInfo, FaultReason, RuntimeFault

LOOPBACK = ("localhost", "127.0.0.1", "::1")
T = TypeVar("T")
DEADLINE = 10.0  # seconds; a frozen host accepts the connection and never answers


def probe(endpoint: str, tls_dir: str = "") -> EngineInfo:
    """What the engine reports about itself. BadRequest with the reason when it cannot be reached or cannot be a
    node."""
    info = _ask(endpoint, tls_dir)
    if info.swarm_worker:
        raise BadRequest(
            f"{endpoint} is a worker of a Docker Swarm, which also starts containers there."
            " Take it out with `docker swarm leave` first."
        )
    if info.kubelet:
        raise BadRequest(f"{endpoint} runs a kubelet, so Kubernetes hands out its GPUs too. It cannot be a node.")
    return info


def address_of(endpoint: str) -> str:
    """The address at which peers reach the engine's containers, as far as the endpoint names it."""
    host = urlsplit(endpoint).hostname
    return primary_address() if host is None or host in LOOPBACK else host


def primary_address() -> str:
    """The address this host uses towards others (127.0.0.1 without a network). Connecting a UDP socket sends nothing:
    the kernel only picks the route."""
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe_socket:
                probe_socket.connect((target, 9))
                return str(probe_socket.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def within(seconds: float, ask: Callable[[], T]) -> T:
    """Call ``ask`` and give what it returns or raises. TimeoutError when it takes longer."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # the caller tells faults from bugs
            answer.set_exception(error)

    # A daemon: when the deadline has passed nobody waits for it, and it ends with the runtime's own time-outs.
    threading.Thread(target=run, name="probe", daemon=True).start()
    return answer.result(seconds)


def _ask(endpoint: str, tls_dir: str) -> EngineInfo:
    try:
        return within(DEADLINE, lambda: schemes.connect(endpoint, Path(tls_dir) if tls_dir else None).info())
    except TimeoutError:
        raise BadRequest(
            f"The {schemes.scheme_of(endpoint).engine} engine at {endpoint} does not answer within {DEADLINE:g} s."
        ) from None
    except RuntimeFault as fault:
        names_endpoint = fault.reason is FaultReason.UNREACHABLE
        message = fault.sentence if names_endpoint else f"The engine at {endpoint} cannot be used: {fault.sentence}"
        raise BadRequest(message) from None
