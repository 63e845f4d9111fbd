"""WebSockets: which address is whose, how many there may be, and a plain object to talk over one.

uvicorn and the library websockets speak the protocol: frames, their sizes, pings. An opening that is refused is never
accepted: the answer is plain HTTP with a status and a sentence. Browsers hide that answer from scripts, so a GET of a
socket's address should give the same sentence.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest

from portal.core.errors import BadRequest, Crowded, LongshoreError, NotFound
from portal.web.requests import StreamRequest
from portal.web.serving.connection import MANY

_BROKEN = 1011  # the code by which a server says that it failed
log = structlog.get_logger()


class Closed(Exception):
    """The other side has closed the socket, or cannot be reached any more."""


class Socket:
    """One WebSocket. ``request`` is its opening as Django sees one: cookies, query, headers, address of the client."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        kind = {"type": "http", "method": "GET", "scheme": "https" if scope.get("scheme") == "wss" else "http"}
        self.request: HttpRequest = StreamRequest({**scope, **kind}, io.BytesIO())
        self._receive, self._send = receive, send
        self._is_accepted = self._is_closed = False

    async def accept(self) -> None:
        """Raises Closed when the client has gone meanwhile."""
        if (await self._receive())["type"] != "websocket.connect":
            raise Closed
        await self._send({"type": "websocket.accept"})
        self._is_accepted = True

    async def receive(self) -> bytes | str:
        """The next message. Raises Closed. Nothing more is read from the client until this is called again."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._is_closed = True
            raise Closed
        data: bytes | str | None = message.get("bytes")
        return data if data is not None else str(message.get("text", ""))

    async def send(self, data: bytes | str) -> None:
        """Returns when there is room for more. Raises Closed."""
        if self._is_closed:
            raise Closed
        try:
            await self._send({"type": "websocket.send", "bytes" if isinstance(data, bytes) else "text": data})
        except OSError:  # what uvicorn raises for a client that is gone
            self._is_closed = True
            raise Closed from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """``code``: 1000, or 4000 and more. Again is free."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": reason.encode()[:120].decode()})
        except (OSError, RuntimeError):
            pass  # it is gone already

    async def refuse(self, error: LongshoreError) -> None:
        """In place of ``accept``; after it, close."""
        if self._is_accepted:
            await self.close(_BROKEN, error.message)
            return
        self._is_closed = True
        head = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await self._send({"type": "websocket.http.response.start", "status": error.status, "headers": head})
        await self._send({"type": "websocket.http.response.body", "body": error.message.encode()})


Handler = Callable[[Socket, dict[str, str]], Awaitable[None]]


class Sockets:
    """The ASGI application of all sockets. ``routes``: for each kind a pattern of its path and who serves it. A handler
    decides who may open it, accepts it and returns when it is over. A LongshoreError that it raises before it accepts
    is the answer to the client."""

    def __init__(self, routes: Sequence[tuple[re.Pattern[str], Handler]]) -> None:
        self._routes = routes
        self._open = 0

    async def crowded(self, scope: Any, receive: Any, send: Any) -> None:
        """In place of a call, for an address that has too many."""
        await Socket(scope, receive, send).refuse(Crowded(MANY))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        socket = Socket(scope, receive, send)
        self._open += 1
        try:
            await self._serve(socket, scope["path"])
        except LongshoreError as error:
            await socket.refuse(error)
        except SuspiciousOperation:  # of Django: a host that is not ours
            await socket.refuse(BadRequest("The portal does not answer by this name."))
        except Closed:
            pass
        except Exception as error:
            log.error("a socket failed", path=scope["path"], exc_info=error)
            await socket.refuse(LongshoreError("The portal failed at this; its log says why."))
        else:
            await socket.close()
        finally:
            self._open -= 1

    async def _serve(self, socket: Socket, path: str) -> None:
        if self._open > settings.CONNECTIONS // 2:
            raise Crowded("There are too many open sockets. Try again later.")
        for pattern, handler in self._routes:
            if found := pattern.fullmatch(path):
                await handler(socket, found.groupdict())
                return
        raise NotFound("There is no socket at this address.")


async def first_of(*ways: Awaitable[Any]) -> None:
    """Wait until one of them is done, such as one direction of a socket. The others are cancelled; what any of them
    raises is not of interest."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
