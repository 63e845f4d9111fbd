"""Connects to ports of an engine's host: straight, or on the way on which the engine is reached: through its SSH
connection, or through the engine and the task's container (attach/relay.py).

A channel of paramiko is no socket of the system, so event loops cannot wait for it. Two threads carry its bytes to and
from one end of a pair of sockets, and whoever dialled has the other end.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

import paramiko

from clusters.engines.docker.attach.relay import Relay
from clusters.engines.docker.connect import CONNECT, KEEP_ALIVE, Ways
from clusters.engines.docker.errors import FOREIGN, translated
from clusters.engines.runtime import FaultReason, RuntimeFault

_PIECE = 1 << 16
_SILENT = 20_000  # milliseconds in which a host takes nothing of what was sent
_PROHIBITED = 1  # paramiko.ChannelException: sshd lets nobody through (RFC 4254, 5.1)
_STRAIGHT = (
    "If that stays so, a firewall keeps the portal from the ports of tasks there: an admin opens them to the portal, "
    "or registers the node with an ssh:// endpoint, which needs none open."
)
# A container may listen on all addresses of its host, on its loopback alone, or be published on one of them.
_LOOPBACK = "127.0.0.1"


def dial(ways: Ways, relay: Relay, endpoint: str, address: str, port: int, container: str) -> socket.socket:
    """As clusters.engines.runtime.Dialer says."""
    try:
        if (channel := _tunnel(ways, endpoint, address, port)) is not None:
            return _carried(channel)
        if container and relay.is_known(address):
            return relay.dial(address, port, container)
        return _straight(address, port)
    except ConnectionRefusedError:
        raise _nobody(port) from None
    except (TimeoutError, OSError) as error:
        if container and not _is_ssh(endpoint):
            return relay.dial(address, port, container)
        why = error.strerror or "it did not answer in time"
        raise RuntimeFault(
            f"Port {port} of {address} cannot be reached: {why}. {'' if _is_ssh(endpoint) else _STRAIGHT}".rstrip(),
            reason=FaultReason.UNREACHABLE,
        ) from error


def _is_ssh(endpoint: str) -> bool:
    return endpoint.startswith("ssh://")


def _straight(address: str, port: int) -> socket.socket:
    """A host that falls silent breaks it: a request that nobody takes is answered with a sentence, not with a page
    that loads for ever."""
    dialled = socket.create_connection((address, port), CONNECT)
    for option in KEEP_ALIVE:
        dialled.setsockopt(*option)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT)
    return dialled


def _tunnel(ways: Ways, endpoint: str, address: str, port: int) -> paramiko.Channel | None:
    with translated(endpoint):
        for host in (_LOOPBACK, address):
            try:
                return ways.tunnel(host, port)
            except paramiko.ChannelException as error:
                if error.code == _PROHIBITED:
                    raise RuntimeFault(
                        f"The SSH server of {endpoint} forbids connections to ports of its host. Allow them there: "
                        "AllowTcpForwarding yes, or local.",
                        reason=FaultReason.REFUSED,
                        permanent=True,
                    ) from error
    raise _nobody(port)


def _carried(channel: paramiko.Channel) -> socket.socket:
    ours, theirs = socket.socketpair()
    for carry in (_outward, _inward):
        threading.Thread(target=carry, args=(channel, theirs), daemon=True, name="tunnel").start()
    return ours


def _outward(channel: Any, end: socket.socket) -> None:
    """Until the dialler sends no more; what comes back may still be on its way."""
    with suppress(*FOREIGN):
        while data := end.recv(_PIECE):
            channel.sendall(data)
        channel.shutdown_write()


def _inward(channel: Any, end: socket.socket) -> None:
    with suppress(*FOREIGN):
        while data := channel.recv(_PIECE):
            end.sendall(data)
    with suppress(*FOREIGN):
        end.shutdown(socket.SHUT_RDWR)
    with suppress(*FOREIGN):
        channel.close()
    end.close()


def _nobody(port: int) -> RuntimeFault:
    return RuntimeFault(f"Nothing listens on port {port}.", reason=FaultReason.REFUSED)
