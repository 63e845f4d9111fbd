"""Runs programs in containers of pods, with and without a terminal, by web sockets of the cluster's API.

Bytes travel in messages whose first byte is a channel: 0 to 2 are the program's streams, 3 says how it ended, 4 takes
the size of its terminal (v4.channel.k8s.io).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any
from urllib.parse import urlencode

import aiohttp

from clusters.engines.exec_terminal import ExecTerminals, ending, shell
from clusters.engines.kubernetes.connect import CONNECT, ClusterApi
from clusters.engines.kubernetes.errors import Refused, refused, unreachable
from clusters.engines.kubernetes.spec import MAIN, pod_name
from clusters.engines.kubernetes.status import read
from clusters.engines.runtime import FaultReason, Phase, RuntimeFault

PROTOCOL = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
_OPENING = 15.0  # seconds
MOST_SAID = 1 << 20  # bytes of output after which a program is not waited for
_HEARTBEAT = 20.0  # seconds between two questions whether the other side is there
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
# An exec has no environment of its own: the variables come as arguments. The size is set where the image has stty.
_BEGIN = """
n=$3; stty cols "$1" rows "$2" 2>/dev/null; shift 3
while [ "$n" -gt 0 ]; do export "$1"; shift; n=$((n-1)); done
unset n; echo $$; exec "$@"
"""
_ENDING = 20.0  # seconds
_SIGNALS = 128  # exit codes beyond are ends by a signal
_PAUSES = (0.0, 0.5, 1.0, 1.5)
_OVER = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING)


class Exec:
    """A program in the container of a pod. All of it is used on one event loop."""

    def __init__(self, cluster: ClusterApi, pod: str, session: aiohttp.ClientSession, socket: Any) -> None:
        self._cluster, self._pod, self._session, self._socket = cluster, pod, session, socket
        self.code: int | None = None  # once it has ended, if anybody knows it

    @classmethod
    async def begin(cls, cluster: ClusterApi, pod: str, argv: Sequence[str], *, tty: bool = False) -> Exec:
        """Raises RuntimeFault: Refused with the status of HTTP, UNREACHABLE when nobody answers."""
        way = await asyncio.to_thread(cluster.access)
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(session)
            try:
                async with asyncio.timeout(_OPENING):
                    socket = await session.ws_connect(
                        way.server + _path(cluster, pod, argv, tty),
                        headers=way.headers(),
                        protocols=(PROTOCOL,),
                        ssl=way.tls,
                        server_hostname=way.server_name,
                        heartbeat=_HEARTBEAT,
                        max_msg_size=0,
                    )
            except aiohttp.WSServerHandshakeError as error:
                raise refused(error.status, error.message, cluster.name) from error
            except _BROKEN as error:
                raise unreachable(error, cluster.name) from error
            stack.pop_all()
        return cls(cluster, pod, session, socket)

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
        with suppress(RuntimeFault):  # it has ended
            await self.write(json.dumps({"Width": columns, "Height": rows}).encode(), RESIZE)

    async def exit_code(self) -> int | None:
        """A killed program may have been killed together with its container, whose end is known a little later: then
        there is no exit code."""
        for pause in _PAUSES if self.code is not None and self.code > _SIGNALS else (0.0,):
            await asyncio.sleep(pause)
            if not await _runs(self._cluster, self._pod):
                return None
        return self.code

    async def close(self) -> None:
        with suppress(*_BROKEN):
            async with asyncio.timeout(CONNECT):
                await self._socket.close()
        await self._session.close()


class PodTerminals(ExecTerminals):
    """Programs with a terminal in the pods of one cluster."""

    patience = CONNECT
    _cluster: ClusterApi

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        try:
            await output_of(self._cluster, pod_name(name), ending(pid, mark), _ENDING)
        except Refused:
            if await _runs(self._cluster, pod_name(name)):
                raise

    async def _begin(self, name: str, argv: tuple[str, ...], env: Mapping[str, str], columns: int, rows: int) -> Exec:
        variables = [f"{key}={value}" for key, value in env.items()]
        begin = shell(_BEGIN, str(columns), str(rows), str(len(variables)), *variables, *argv)
        try:
            return await Exec.begin(self._cluster, pod_name(name), begin, tty=True)
        except Refused:
            if await _runs(self._cluster, pod_name(name)):
                raise
        raise RuntimeFault(f"Container {name} does not run.", reason=FaultReason.GONE, permanent=True)


async def output_of(cluster: ClusterApi, pod: str, argv: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
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


def run(cluster: ClusterApi, pod: str, argv: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
    """``output_of`` for threads without an event loop."""
    return asyncio.run(output_of(cluster, pod, argv, seconds))


async def _runs(cluster: ClusterApi, pod: str) -> bool:
    try:
        there = await asyncio.to_thread(cluster.ask, "GET", cluster.here("pods", pod))
    except Refused:
        return False
    return read(there, cluster.name).phase is Phase.RUNNING


def _path(cluster: ClusterApi, pod: str, argv: Sequence[str], tty: bool) -> str:
    asked = [("container", MAIN), ("stdout", "true")]
    asked += [("stdin", "true"), ("tty", "true")] if tty else [("stderr", "true")]
    asked += [("command", word) for word in argv]
    return f"{cluster.here('pods', pod, 'exec')}?{urlencode(asked)}"


def _exit_code(said: bytes) -> int | None:
    """The exit code in the Status that ends an exec; None where it has none."""
    try:
        status = json.loads(said)
        if status.get("status") == "Success":
            return 0
        return next(int(cause["message"]) for cause in status["details"]["causes"] if cause["reason"] == "ExitCode")
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None
