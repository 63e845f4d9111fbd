"""Runs programs in containers of pods, by web sockets of the cluster's API.

Bytes travel in messages whose first byte is a channel: 0 to 2 are the program's streams, 3 says how it ended, 4 takes
the size of its terminal (v4.channel.k8s.io).
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import aiohttp

from clusters.engines.kubernetes.connect import CONNECT, Cluster
from clusters.engines.kubernetes.errors import refused, unreachable
from clusters.engines.kubernetes.spec import MAIN

PROTOCOL = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
_OPENING = 15.0  # seconds
MOST_SAID = 1 << 20  # bytes of output after which a program is not waited for
_HEARTBEAT = 20.0  # seconds between two questions whether the other side is there
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
_OVER = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING)


class Exec:
    """A program in the container of a pod. All of it is used on one event loop."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession, socket: Any) -> None:
        self._cluster, self._session, self._socket = cluster, session, socket
        self.code: int | None = None  # once it has ended, if anybody knows it

    @classmethod
    async def begin(cls, cluster: Cluster, pod: str, argv: Sequence[str], *, tty: bool = False) -> Exec:
        """Raises RuntimeFault: Refused with the status of HTTP, UNREACHABLE when nobody answers."""
        configuration = await asyncio.to_thread(cluster.configuration)
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT))
        try:
            async with asyncio.timeout(_OPENING):
                socket = await session.ws_connect(
                    _address(cluster, configuration, pod, argv, tty),
                    headers=_headers(configuration),
                    protocols=(PROTOCOL,),
                    ssl=_tls(configuration),
                    server_hostname=configuration.tls_server_name or None,
                    heartbeat=_HEARTBEAT,
                    max_msg_size=0,
                )
        except aiohttp.WSServerHandshakeError as error:
            await session.close()
            raise refused(error.status, error.message, cluster.name) from error
        except _BROKEN as error:
            await session.close()
            raise unreachable(error, cluster.name) from error
        except BaseException:
            await session.close()
            raise
        return cls(cluster, session, socket)

    async def read(self) -> bytes:
        """The next bytes of its output; nothing when it has ended."""
        while True:
            message = await self._socket.receive()
            if message.type in _OVER:
                return b""
            if message.type is aiohttp.WSMsgType.ERROR:
                raise unreachable(message.data, self._cluster.name)
            data = message.data if isinstance(message.data, bytes) else str(message.data).encode()
            if data[:1] == bytes([STATUS]):
                self.code = _exit_code(data[1:])
            elif data[1:] and data[0] in (STDOUT, STDERR):
                return data[1:]

    async def write(self, data: bytes, channel: int = STDIN) -> None:
        try:
            await self._socket.send_bytes(bytes([channel]) + data)
        except (*_BROKEN, RuntimeError) as error:
            raise unreachable(error, self._cluster.name) from error

    async def resize(self, columns: int, rows: int) -> None:
        await self.write(json.dumps({"Width": columns, "Height": rows}).encode(), RESIZE)

    async def close(self) -> None:
        with suppress(*_BROKEN):
            async with asyncio.timeout(CONNECT):
                await self._socket.close()
        await self._session.close()


async def output_of(cluster: Cluster, pod: str, argv: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
    """Run a program to its end, ``seconds`` at most: its exit code, None where nobody knows it or it has not ended, and
    its output. The container is somebody's own, so any program may be another than its name says: of one that writes
    without end the rest is not waited for. Raises what ``begin`` does."""
    program = await Exec.begin(cluster, pod, argv)
    said = b""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(said) < MOST_SAID and (data := await program.read()):
                    said += data
        return program.code, said
    finally:
        await program.close()


def run(cluster: Cluster, pod: str, argv: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
    """``output_of`` for threads without an event loop."""
    return asyncio.run(output_of(cluster, pod, argv, seconds))


def _address(cluster: Cluster, configuration: Any, pod: str, argv: Sequence[str], tty: bool) -> str:
    asked = [("container", MAIN), ("stdout", "true")]
    asked += [("stdin", "true"), ("tty", "true")] if tty else [("stderr", "true")]
    asked += [("command", word) for word in argv]
    return f"{configuration.host}{cluster.here('pods', pod, 'exec')}?{urlencode(asked)}"


def _headers(configuration: Any) -> dict[str, str]:
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    return {"authorization": str(token)} if token else {}


def _tls(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _exit_code(said: bytes) -> int | None:
    """The exit code in the Status that ends an exec; None where it has none."""
    try:
        status = json.loads(said)
        if status.get("status") == "Success":
            return 0
        return next(int(one["message"]) for one in status["details"]["causes"] if one["reason"] == "ExitCode")
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None
