"""Connections through the portal into a task: its ports, and a terminal. They come over WebSockets, so the portal alone
must be reached, and not the node."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from .errors import BY_STATUS, ClientError, NotAllowed, NotSignedIn, PortalAway
from .jobs import RemoteJob
from .transport import quoted, trusted

_PIECE = 1 << 16
# Codes of a close; those of the portal are in docs/use/terminal.md.
_FINE, _GONE, _RESTARTS, _NOT_ALLOWED = 1000, 1006, 1012, 4003


class BytesReader(Protocol):
    async def read(self, most: int) -> bytes: ...


@asynccontextmanager
async def opened(job: RemoteJob, kind: str, task: str, *below: str, **query: Any) -> AsyncIterator[ClientConnection]:
    """A WebSocket to a task. Raises the errors of ``errors`` with the portal's sentence."""
    account = job.transport.account
    role, _, index = task.rpartition("-")
    path = quoted(kind, job.username, job.name, role, index, *below)
    url = f"{account.url.replace('http', 'ws', 1)}/{path}?{urlencode(query)}"
    security: dict[str, Any] = {"ssl": trusted()} if url.startswith("wss") else {}
    headers = {"Authorization": f"Bearer {account.token}"}
    try:
        socket = await connect(
            url, additional_headers=headers, compression=None, max_size=None, proxy=None, close_timeout=1, **security
        )
    except InvalidStatus as error:
        if error.response.status_code == 401:
            raise NotSignedIn from None
        told = error.response.body.decode(errors="replace") or f"{account.url} answered {error.response.status_code}."
        raise BY_STATUS.get(error.response.status_code, ClientError)(told) from None
    except (OSError, WebSocketException) as error:
        raise PortalAway(f"{account.url} does not answer ({error}).") from None
    async with socket:
        yield socket


def broken_off(socket: ClientConnection) -> ClientError:
    """Why it was closed, where its task did not do it."""
    kind = {_NOT_ALLOWED: NotAllowed, _GONE: PortalAway, _RESTARTS: PortalAway}.get(socket.close_code or 0, ClientError)
    return kind(socket.close_reason or "The connection broke off.")


async def carry(socket: ClientConnection, reader: BytesReader, write: Callable[[bytes], Any]) -> None:
    """The bytes of a port both ways, until the task sends no more. Raises ClientError for any other end."""

    async def outward() -> None:
        with suppress(ConnectionClosed, OSError):
            while data := await reader.read(_PIECE):
                await socket.send(data)
            await socket.send(json.dumps({"end": True}))

    sending = asyncio.ensure_future(outward())
    try:
        with suppress(ConnectionClosed):
            async for data in socket:
                await write(data if isinstance(data, bytes) else data.encode())
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    if socket.close_code not in (None, _FINE):
        raise broken_off(socket)


async def forward(job: RemoteJob, task: str, port: str, local: int, tell: Callable[[str], None]) -> None:
    """Listen on a port of this machine, and carry each connection to that of the task. It is tried once at first."""
    async with opened(job, "tunnel", task, port):
        pass

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            async with opened(job, "tunnel", task, port) as tunnel:
                await carry(tunnel, reader, write)
        except ClientError as error:
            tell(str(error))
            # A reset, since an end like any other would say that this was all.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        except (ConnectionClosed, OSError):
            pass
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(come, "127.0.0.1", local)
    except OSError as error:
        raise ClientError(f"Port {local} of this machine cannot be used ({error.strerror}).") from None
    address = "{}:{}".format(*server.sockets[0].getsockname()[:2])
    tell(f"http://{address} leads to port {port} of {task} of {job.full_name}. Ctrl-C ends this.")
    async with server:
        await server.serve_forever()


async def pipe(job: RemoteJob, task: str, port: str) -> None:
    """A port of the task as standard input and output, for ``ProxyCommand`` of ssh."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def write(data: bytes) -> None:
        await loop.run_in_executor(None, write_out, data)

    with suppress(ConnectionClosed):
        async with opened(job, "tunnel", task, port) as socket:
            await carry(socket, reader, write)


def write_out(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


async def terminal(job: RemoteJob, task: str, command: str, size: tuple[int, int]) -> int:
    """A shell in the task, or this command of one, at this terminal. Returns its exit code."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes] = asyncio.Queue()

    def read_keys() -> None:
        last = b"\n"
        with suppress(OSError, RuntimeError):  # this program has ended
            while data := os.read(0, _PIECE):
                loop.call_soon_threadsafe(typed.put_nowait, data)
                last = data[-1:]
            # Ctrl-D ends what is read at the begin of a line, and the line first elsewhere.
            loop.call_soon_threadsafe(typed.put_nowait, b"\x04" if last == b"\n" else b"\x04\x04")

    async def send(socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                await socket.send(await typed.get())

    more = {"command": command} if command else {}
    code = None
    async with opened(job, "terminal", task, cols=size[0], rows=size[1], **more) as socket:
        threading.Thread(target=read_keys, daemon=True).start()
        resize(loop, socket)
        sending = asyncio.ensure_future(send(socket))
        try:
            async for data in socket:
                if isinstance(data, bytes):
                    write_out(data)
                else:
                    code = json.loads(data).get("exit", code)
        except ConnectionClosed:
            pass
        finally:
            sending.cancel()
    if code is None:
        raise broken_off(socket)
    return int(code)


def resize(loop: asyncio.AbstractEventLoop, socket: ClientConnection) -> None:
    """Tell the task when the window of this terminal has another size."""
    import shutil
    import signal

    told_now: set[asyncio.Future[None]] = set()  # so that none is collected before it was sent

    def told() -> None:
        sending = asyncio.ensure_future(socket.send(json.dumps({"resize": list(shutil.get_terminal_size())})))
        told_now.add(sending)
        sending.add_done_callback(told_now.discard)

    if sys.stdout.isatty():
        loop.add_signal_handler(signal.SIGWINCH, told)
