"""Takes a window to the web process that has its shell, where several processes serve one port.

Each process listens on a socket in a folder that is closed to other users. What goes over it are the messages of the
window, by the same library. A shell of another host cannot be reached: there its window gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from websockets.asyncio.client import unix_connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed, WebSocketException

from base.serving.sockets import Closed, Socket, first_of
from base.wakes.wake import sockets_folder
from jobs.terminal.shell import Shell

_LARGEST = 4 * 1024 * 1024  # bytes of a message; each has been let in by the window's own process


class RemoteWindow:
    """A window that another process has."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def receive(self) -> bytes | str:
        try:
            return await self._connection.recv()
        except ConnectionClosed:
            raise Closed from None

    async def send(self, data: bytes | str) -> None:
        try:
            await self._connection.send(data)
        except ConnectionClosed:
            raise Closed from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._connection.close(code, reason.encode()[:120].decode(errors="ignore"))


async def listen(owner: str, find: Callable[[str], Shell | None]) -> Any:
    """Let windows of other processes come to the shells that ``find`` gives by their token. Nothing where there is one
    process alone."""
    if settings.WEB_PROCESSES == 1:
        return None

    async def come(connection: ServerConnection) -> None:
        address = urlsplit(connection.request.path if connection.request else "/")
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        shell, window = find(address.path.strip("/")), RemoteWindow(connection)
        if shell is not None:
            await shell.resize(int(query["cols"]), int(query["rows"]))
            after = int(query["after"]) if "after" in query else None
            await shell.show(window, after=after, flow="flow" in query)

    path = _path(owner)
    path.unlink(missing_ok=True)
    return await unix_serve(come, str(path), max_size=_LARGEST, compression=None, ping_interval=None)


async def pass_on(socket: Socket, owner: str, token: str, query: Mapping[str, object]) -> bool:
    """Show the shell of another process in this window until either is closed. False when that process cannot be
    reached, and then nothing was sent to the window."""
    address = f"ws://shells/{token}?{urlencode(query)}"
    try:
        async with unix_connect(
            str(_path(owner)), address, max_size=_LARGEST, compression=None, ping_interval=None
        ) as there:
            await first_of(_carry(socket.receive, there.send), _carry(there.recv, socket.send))
            await there.close()
            await socket.close(there.close_code or 1000, there.close_reason or "")
            return True
    except (OSError, WebSocketException, TimeoutError):
        return False


async def _carry(take: Callable[[], Any], give: Callable[[Any], Any]) -> None:
    try:
        while True:
            await give(await take())
    except (Closed, ConnectionClosed):
        return


def _path(owner: str) -> Path:
    return sockets_folder("terminals") / owner
