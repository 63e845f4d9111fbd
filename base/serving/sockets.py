"""A plain object to talk over one WebSocket. uvicorn and the library websockets speak the protocol: frames, their
sizes, pings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from base.core.errors import LongshoreError

_BROKEN = 1011  # the code by which a server says that it failed


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's, which takes a refusal by an answer of HTTP (ASGI's extension websocket.http.response) for an
    application that forgot to answer, and writes an error into the log for each."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True


class Closed(Exception):
    """The other side has closed the socket, or cannot be reached any more."""


class Socket:
    """One WebSocket, as an ASGI server hands it over."""

    def __init__(self, receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        self._is_accepted = self._is_closed = False

    async def accept(self) -> None:
        """Raises Closed when the client has gone meanwhile."""
        if (await self._receive())["type"] != "websocket.connect":
            raise Closed
        await self._send({"type": "websocket.accept"})
        self._is_accepted = True

    async def receive(self) -> bytes | str:
        """Return the next message. Raises Closed. Nothing more is read from the client until this is called again."""
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
        """Answer with the error in place of ``accept``; after it, close."""
        if self._is_accepted:
            await self.close(_BROKEN, error.message)
            return
        self._is_closed = True
        head = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await self._send({"type": "websocket.http.response.start", "status": error.status, "headers": head})
        await self._send({"type": "websocket.http.response.body", "body": error.message.encode()})


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
