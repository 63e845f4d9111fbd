"""Carries connections to ports of tasks through the engine, where a firewall or NAT keeps the portal from the ports.

In the task's own container a small program connects to the port and passes bytes on, over an exec. One thread with an
event loop of its own drives all that a process has open; whoever dialled has one end of a pair of sockets.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from clusters.engines.docker.attach.dial import Dialer, Pipe
from clusters.engines.docker.attach.hijack import hijack
from clusters.engines.docker.attach.program import Terminals, created
from clusters.engines.docker.errors import FOREIGN, translated
from clusters.engines.exec_terminal import shell
from clusters.engines.runtime import FaultReason, RuntimeFault

T = TypeVar("T")

REMEMBERED = 60.0  # seconds for which ports of an address are not tried straight again
_PIECE = 1 << 16
_OPENING = 20.0  # seconds
_HEAD = 8  # bytes before each piece of an exec without a terminal: which stream it is of, and its length in the last 4
_STDOUT = 1
_LONGEST = 1 << 20  # bytes of a piece; no engine sends as many
# What the program says first. It ends when either side has nothing more to send.
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


class Relay:
    """Of one engine."""

    def __init__(self, endpoint: str, folder: Path | None, terminals: Terminals) -> None:
        self._endpoint, self._terminals = endpoint, terminals
        self._dialer = Dialer(endpoint, folder)
        self._shut: dict[str, float] = {}  # address: until when it is not tried straight

    def is_known(self, address: str) -> bool:
        """Whether ports of this address were out of reach a moment ago."""
        return time.monotonic() < self._shut.get(address, 0.0)

    def dial(self, address: str, port: int, container: str) -> socket.socket:
        """A connection to a port, as the container reaches it. Raises RuntimeFault: REFUSED when nothing listens there,
        UNREACHABLE when there is no way through the container either."""
        dialled = _run(self._open(port, container))
        self._shut[address] = time.monotonic() + REMEMBERED
        return dialled

    async def _open(self, port: int, container: str) -> socket.socket:
        argv = shell(_BEGIN, str(port), _PROGRAM)
        exec_id, version = await self._terminals.call(
            lambda api: (created(api, container, argv, {}, stdin=True, stdout=True), api.api_version)
        )
        with translated(self._endpoint):
            pipe = await self._dialer.dial()
        try:
            async with asyncio.timeout(_OPENING):
                with translated(self._endpoint):
                    frames = _Frames(pipe, await hijack(pipe, f"/v{version}/exec/{exec_id}/start", {"Tty": False}))
                    said = await frames.read()
            _check(said[:1], port)
        except TimeoutError:
            pipe.close()
            raise RuntimeFault("The engine opened no way to it in time.", reason=FaultReason.UNREACHABLE) from None
        except BaseException:
            pipe.close()
            raise
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        carrying = asyncio.create_task(_carry(pipe, frames, said[1:], theirs))
        _carried.add(carrying)
        carrying.add_done_callback(_carried.discard)
        return ours


class _Frames:
    """What an exec without a terminal writes to its standard output. ``rest``: what has been read already."""

    def __init__(self, pipe: Pipe, rest: bytes) -> None:
        self._pipe, self._rest = pipe, bytearray(rest)

    async def read(self) -> bytes:
        """Nothing at the end."""
        while True:
            while len(self._rest) < _HEAD or len(self._rest) < _HEAD + self._length:
                data = await self._pipe.read()
                if not data or self._length > _LONGEST:
                    return b""
                self._rest += data
            stream, end = self._rest[0], _HEAD + self._length
            data = bytes(self._rest[_HEAD:end])
            del self._rest[:end]
            if stream == _STDOUT and data:
                return data

    @property
    def _length(self) -> int:
        return int.from_bytes(self._rest[4:_HEAD], "big")


_carried: set[asyncio.Task[None]] = set()  # an event loop keeps no task alive by itself
_lock = threading.Lock()
_kept: tuple[int, asyncio.AbstractEventLoop] | None = None  # of which process


def _run(work: Coroutine[None, None, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


def _loop() -> asyncio.AbstractEventLoop:
    global _kept
    with _lock:
        if _kept is None or _kept[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True, name="relay").start()
            _kept = os.getpid(), loop
        return _kept[1]


def _check(said: bytes, port: int) -> None:
    if said == _THERE:
        return
    if said == _NOBODY:
        raise RuntimeFault(f"Nothing listens on port {port}.", reason=FaultReason.REFUSED)
    why = "its image has no python3" if said == _NO_PROGRAM else "what passes bytes on there ended"
    raise RuntimeFault(f"The task cannot pass port {port} on: {why}.", reason=FaultReason.UNREACHABLE)


async def _carry(pipe: Pipe, frames: _Frames, first: bytes, end: socket.socket) -> None:
    """Until either side is closed."""
    loop = asyncio.get_running_loop()

    async def outward() -> None:
        while data := await loop.sock_recv(end, _PIECE):
            await pipe.write(data)

    async def inward() -> None:
        await loop.sock_sendall(end, first)
        while data := await frames.read():
            await loop.sock_sendall(end, data)

    parts = [asyncio.create_task(part()) for part in (outward, inward)]
    try:
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for part in parts:
            part.cancel()
        with suppress(*FOREIGN):
            await asyncio.gather(*parts, return_exceptions=True)
        pipe.close()
        end.close()
