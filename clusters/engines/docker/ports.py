"""Connects to ports of tasks: straight to the engine's host, or on the way on which the engine is reached: through its
SSH connection, or through the engine and the task's container, where a firewall or NAT keeps the portal from the ports.

A channel of paramiko is no socket of the system, so event loops cannot wait for it. Two threads carry its bytes to and
from one end of a pair of sockets, and whoever dialled has the other end. In a task's own container a small program
connects to the port and passes bytes on, over an exec; one thread with an event loop of its own drives all of these
that a process has open.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import paramiko

from clusters.engines.docker.attach.dial import PipeDialer
from clusters.engines.docker.attach.execs import DockerExec
from clusters.engines.docker.connect import EngineClients
from clusters.engines.docker.errors import FOREIGN, translated
from clusters.engines.docker.ways import CONNECT, KEEP_ALIVE
from clusters.engines.exec_terminal import shell
from clusters.engines.runtime import FaultReason, RuntimeFault

REMEMBERED = 60.0  # seconds for which ports of an address are not tried straight again
_PIECE = 1 << 16
_OPENING = 20.0  # seconds
_SILENT = 20_000  # milliseconds in which a host takes nothing of what was sent
_PROHIBITED = 1  # paramiko.ChannelException: sshd lets nobody through (RFC 4254, 5.1)
_STRAIGHT = (
    "If that stays so, a firewall keeps the portal from the ports of tasks there: an admin opens them to the portal, "
    "or registers the node with an ssh:// endpoint, which needs none open."
)
# A container may listen on all addresses of its host, on its loopback alone, or be published on one of them.
_LOOPBACK = "127.0.0.1"
# What the program in a container says first. It ends when either side has nothing more to send.
_THERE, _NOBODY, _NO_PROGRAM = b"+", b"-", b"?"
_PROGRAM = """
import os, socket, sys, threading
try:
    way = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
except OSError:
    os.write(1, b"-")
    os._exit(0)
way.settimeout(None)
os.write(1, b"+")
def outward():
    try:
        for data in iter(lambda: os.read(0, 65536), b""):
            way.sendall(data)
    finally:
        os._exit(0)
threading.Thread(target=outward, daemon=True).start()
try:
    for data in iter(lambda: way.recv(65536), b""):
        while data:
            data = data[os.write(1, data):]
finally:
    os._exit(0)
"""
_BEGIN = """
if command -v python3 >/dev/null 2>&1; then exec python3 -c "$2" "$1"; else printf '?'; fi
"""


class PortDialer:
    """Connects to ports of the tasks of one engine."""

    def __init__(self, endpoint: str, ways: EngineClients, pipes: PipeDialer) -> None:
        self._endpoint, self._ways, self._pipes = endpoint, ways, pipes
        self._is_ssh = endpoint.startswith("ssh://")
        self._shut: dict[str, float] = {}  # address: until when it is not tried straight

    def dial(self, address: str, port: int, container: str) -> socket.socket:
        """Does what Engine.dial says."""
        try:
            if self._is_ssh:
                return _carried(self._tunnel(address, port))
            if container and time.monotonic() < self._shut.get(address, 0.0):
                return self._through(container, address, port)
            return _straight(address, port)
        except ConnectionRefusedError:
            raise _nobody(port) from None
        except (TimeoutError, OSError) as error:
            if container and not self._is_ssh:
                return self._through(container, address, port)
            why = error.strerror or "it did not answer in time"
            raise RuntimeFault(
                f"Port {port} of {address} cannot be reached: {why}. {'' if self._is_ssh else _STRAIGHT}".rstrip(),
                reason=FaultReason.UNREACHABLE,
            ) from error

    def _tunnel(self, address: str, port: int) -> paramiko.Channel:
        with translated(self._endpoint):
            for host in (_LOOPBACK, address):
                try:
                    return self._ways.tunnel(host, port)
                except paramiko.ChannelException as error:
                    if error.code == _PROHIBITED:
                        raise RuntimeFault(
                            f"The SSH server of {self._endpoint} forbids connections to ports of its host. Allow them "
                            "there: AllowTcpForwarding yes, or local.",
                            reason=FaultReason.REFUSED,
                            permanent=True,
                        ) from error
        raise _nobody(port)

    def _through(self, container: str, address: str, port: int) -> socket.socket:
        """Raises UNREACHABLE when there is no way through the container either."""
        end = asyncio.run_coroutine_threadsafe(self._relayed(container, port), _loop()).result()
        self._shut[address] = time.monotonic() + REMEMBERED
        return end

    async def _relayed(self, container: str, port: int) -> socket.socket:
        argv = shell(_BEGIN, str(port), _PROGRAM)
        with translated(self._endpoint):
            program = await DockerExec.created(self._pipes, container, argv, stdin=True)
        try:
            async with asyncio.timeout(_OPENING):
                with translated(self._endpoint):
                    said = await program.read()
            _check(said[:1], port)
        except TimeoutError:
            program.close()
            raise RuntimeFault("The engine opened no way to it in time.", reason=FaultReason.UNREACHABLE) from None
        except BaseException:
            program.close()
            raise
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        relaying = asyncio.create_task(_relay(program, said[1:], theirs))
        _relaying.add(relaying)
        relaying.add_done_callback(_relaying.discard)
        return ours


def _straight(address: str, port: int) -> socket.socket:
    """A host that falls silent breaks it: a request that nobody takes is answered with a sentence, not with a page
    that loads for ever."""
    dialled = socket.create_connection((address, port), CONNECT)
    for option in KEEP_ALIVE:
        dialled.setsockopt(*option)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT)
    return dialled


def _carried(channel: paramiko.Channel) -> socket.socket:
    """The end of a pair of sockets that has what the channel has."""
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


_relaying: set[asyncio.Task[None]] = set()  # an event loop keeps no task alive by itself
_lock = threading.Lock()
_driver: tuple[int, asyncio.AbstractEventLoop] | None = None  # of which process


def _loop() -> asyncio.AbstractEventLoop:
    """The one of this process, which runs in a thread of its own."""
    global _driver
    with _lock:
        if _driver is None or _driver[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True, name="relay").start()
            _driver = os.getpid(), loop
        return _driver[1]


def _check(said: bytes, port: int) -> None:
    """Raises RuntimeFault unless the program says that it is connected."""
    if said == _THERE:
        return
    if said == _NOBODY:
        raise _nobody(port)
    why = "its image has no python3" if said == _NO_PROGRAM else "what passes bytes on there ended"
    raise RuntimeFault(f"The task cannot pass port {port} on: {why}.", reason=FaultReason.UNREACHABLE)


async def _relay(program: DockerExec, first: bytes, end: socket.socket) -> None:
    """Pass bytes on until either side is closed."""
    loop = asyncio.get_running_loop()

    async def outward() -> None:
        while data := await loop.sock_recv(end, _PIECE):
            await program.write(data)

    async def inward() -> None:
        await loop.sock_sendall(end, first)
        while data := await program.read():
            await loop.sock_sendall(end, data)

    parts = [asyncio.create_task(part()) for part in (outward, inward)]
    try:
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for part in parts:
            part.cancel()
        with suppress(*FOREIGN):
            await asyncio.gather(*parts, return_exceptions=True)
        program.close()
        end.close()


def _nobody(port: int) -> RuntimeFault:
    return RuntimeFault(f"Nothing listens on port {port}.", reason=FaultReason.REFUSED)
