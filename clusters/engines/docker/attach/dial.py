"""Opens a pipe of bytes to an engine, which the event loop drives: a socket, TLS, or a session of SSH.

No thread waits for what comes: asyncio watches the socket, or the descriptor by which paramiko tells that a session has
something. Calls of paramiko may wait for its connection, so they are made in a few threads that all sessions share.
Whoever only samples an engine needs neither the library of Docker nor, but over SSH, paramiko.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from clusters.engines.attach import PIECE
from clusters.engines.docker.ways import CONNECT, DIAL, KEEP_ALIVE, LOOPBACK, NEEDS_KEYS, QUICK, SSH_SESSIONS
from clusters.engines.runtime import FaultReason, RuntimeFault

_SILENT = 20_000  # milliseconds after which an SSH connection that takes nothing counts as broken
# Of other connections: as long as a page waits for its shell, also when something was typed meanwhile.
_GIVEN_UP = (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
_calls = ThreadPoolExecutor(8, thread_name_prefix="ssh")


class Pipe(Protocol):
    """Raises what its way raises (clusters.engines.docker.errors)."""

    async def read(self) -> bytes:
        """Return what came; nothing at the end."""

    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class PipeDialer:
    """Opens connections to one engine. ``folder`` is that of clusters.engines.docker.connect."""

    def __init__(self, endpoint: str, folder: Path | None) -> None:
        self._endpoint, self._folder = endpoint, folder
        self._lock = threading.Lock()
        self._number: dict[Any, int] = {}  # of sessions, by SSH connection
        self._tls: ssl.SSLContext | None = None

    async def dial(self) -> Pipe:
        if self._endpoint.startswith("ssh://"):
            channel, done = await asyncio.get_running_loop().run_in_executor(_calls, self._session)
            return _Session(channel, done)
        if self._endpoint.startswith("unix://"):
            opening = asyncio.open_unix_connection(self._endpoint.removeprefix("unix://"), limit=PIECE)
        else:
            address = urlsplit(self._endpoint)
            if self._folder is None and address.hostname not in LOOPBACK:
                raise RuntimeFault(f"{self._endpoint} {NEEDS_KEYS}", reason=FaultReason.UNREACHABLE, permanent=True)
            if self._folder is not None and self._tls is None:
                self._tls = await asyncio.get_running_loop().run_in_executor(_calls, _context, self._folder)
            opening = asyncio.open_connection(address.hostname, address.port, ssl=self._tls, limit=PIECE)
        return _Stream(*await asyncio.wait_for(opening, CONNECT))

    def _session(self) -> tuple[Any, Callable[[], None]]:
        way = self._take()
        try:
            channel = way.open_session()
            channel.get_transport().sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT)
            channel.settimeout(QUICK)
            channel.exec_command(DIAL)
        except BaseException:
            self._give_back(way)
            raise
        return channel, lambda: self._give_back(way)

    def _take(self) -> Any:
        """A stock sshd allows ten sessions on one connection, so each connection carries a few of them, and is closed
        with the last."""
        with self._lock:
            for way, number in self._number.items():
                if number < SSH_SESSIONS and way.is_alive():
                    self._number[way] += 1
                    return way
        from clusters.engines.docker.ssh import EngineSsh  # late: it loads the libraries of Docker and SSH

        way = EngineSsh(self._endpoint, self._folder, QUICK)
        with self._lock:
            self._number[way] = 1
        return way

    def _give_back(self, way: Any) -> None:
        with self._lock:
            self._number[way] -= 1
            if self._number[way]:
                return
            del self._number[way]
        way.close()


class _Stream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        connection = writer.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:
            for option in (*KEEP_ALIVE, _GIVEN_UP):
                connection.setsockopt(*option)

    async def read(self) -> bytes:
        return await self._reader.read(PIECE)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


class _Session:
    """A session of SSH in which the engine's end of the connection runs."""

    def __init__(self, channel: Any, done: Callable[[], None]) -> None:
        self._channel, self._done = channel, done
        self._loop = asyncio.get_running_loop()
        self._descriptor: int = channel.fileno()
        self._waiting: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        while not self._channel.recv_ready():
            if self._channel.recv_stderr_ready():
                await self._loop.run_in_executor(_calls, self._channel.recv_stderr, PIECE)
            elif self._channel.eof_received or self._channel.closed:
                return b""
            else:
                await self._readable()
        data: bytes = await self._loop.run_in_executor(_calls, self._channel.recv, PIECE)
        return data

    async def write(self, data: bytes) -> None:
        await self._loop.run_in_executor(_calls, self._channel.sendall, data)

    def close(self) -> None:
        if self._waiting is not None:
            _finish(self._waiting)
        self._loop.run_in_executor(_calls, self._close)

    def _close(self) -> None:
        self._channel.close()
        self._done()

    async def _readable(self) -> None:
        self._waiting = waiting = self._loop.create_future()
        self._loop.add_reader(self._descriptor, _finish, waiting)
        try:
            await waiting
        finally:
            self._loop.remove_reader(self._descriptor)


def _finish(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
    return context
