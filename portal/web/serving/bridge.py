"""Django's WSGI handler behind an event loop: a request has a thread while it is worked on, never while its client is
waited for. The body is read before; an answer leaves the thread in pieces, the next one when the client has taken most
of the last.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections

from portal.core.errors import LongshoreError
from portal.web.serving import bodies
from portal.web.serving.connection import group
from portal.web.serving.fair import Fair

REFUSAL = "longshore.refusal"  # in the environ: the error to answer with instead of the page (portal.web.middleware)
PIECE = 128 * 1024  # bytes of an answer that wait for its client in memory
_THREADS = 16  # each keeps its database connection
SILENT = 5.0  # seconds without an answer after which the database counts as down
_DOWN = b'{"status": "down", "database": false}'
_HEALTH = ("/healthz", "/metrics")  # answered also when all threads of pages are busy


class Bridge:
    """``limit``: bytes that the sender of this environ may send, more than ANONYMOUS; may look into the database."""

    def __init__(self, wsgi: Any, limit: Callable[[dict[str, Any]], int]) -> None:
        self._wsgi, self._limit = wsgi, limit
        self._pages = ThreadPoolExecutor(_THREADS, thread_name_prefix="pages")
        self._turns = Fair(_THREADS)
        self._health = ThreadPoolExecutor(2, thread_name_prefix="health")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        loop = asyncio.get_running_loop()
        environ = environ_of(scope)
        try:
            body, size = await bodies.read(
                scope, receive, lambda: loop.run_in_executor(self._pages, self._limit, environ)
            )
        except bodies.Gone:
            return
        except LongshoreError as error:
            body, size = bodies.EMPTY, 0
            environ[REFUSAL] = error
        with body:
            environ |= {"wsgi.input": body, "CONTENT_LENGTH": str(size)}
            exchange = _Exchange(self._wsgi, environ)
            if scope["path"].startswith(_HEALTH):
                await self._tell_health(exchange, send)
                return
            try:
                address = group(environ["REMOTE_ADDR"])
                piece = await self._in_turn(address, exchange.piece)
                await send({"type": "http.response.start", "status": exchange.status, "headers": exchange.headers})
                if exchange.ended:
                    await send({"type": "http.response.body", "body": piece})
                else:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    del piece  # the client may take long
                    await send_pieces(lambda: self._in_turn(address, exchange.piece), receive, send)
            finally:
                if not exchange.ended:
                    await loop.run_in_executor(self._pages, exchange.close)

    async def _in_turn(self, address: str, piece: Callable[[], bytes]) -> bytes:
        """In a thread of pages, when one of those for this address is free."""
        async with self._turns.take(address):
            return await asyncio.get_running_loop().run_in_executor(self._pages, piece)

    async def _tell_health(self, exchange: _Exchange, send: Any) -> None:
        """A database that takes a question and never answers is down too, and whoever asks must not wait for it. A
        thread that waits comes back with the database; a question that no thread has taken yet is dropped."""
        asked = asyncio.get_running_loop().run_in_executor(self._health, exchange.piece)
        try:
            piece = await asyncio.wait_for(asked, SILENT)
            status, headers = exchange.status, exchange.headers
        except TimeoutError:
            status, headers, piece = 503, [(b"content-type", b"application/json")], _DOWN
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": piece})


class _Exchange:
    """One request to the handler and its answer. Any thread may ask for the next piece, one after the other."""

    def __init__(self, wsgi: Any, environ: dict[str, Any]) -> None:
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.ended = False
        self._wsgi, self._environ = wsgi, environ
        self._context = contextvars.copy_context()
        self._answer: Any = None
        self._pieces: Iterator[bytes] | None = None

    def piece(self) -> bytes:
        """About PIECE bytes; at the end less, or nothing."""
        return self._context.run(self._piece)

    def close(self) -> None:
        """Django ends its work for the request: signals, files, connections."""
        self._context.run(self._close)

    def _piece(self) -> bytes:
        if self._pieces is None:
            self._answer = self._wsgi(self._environ, self._start)
            self._pieces = iter(self._answer)
        else:
            close_old_connections()  # of this thread, which may not be the one that began
        parts, size = [], 0
        try:
            for part in self._pieces:
                parts.append(part)
                size += len(part)
                if size >= PIECE:
                    return b"".join(parts)
        except BaseException:
            self._close()
            raise
        self._close()
        return b"".join(parts)

    def _close(self) -> None:
        self.ended = True
        if hasattr(self._answer, "close"):
            self._answer.close()

    def _start(self, status: str, headers: list[tuple[str, str]], error: Any = None) -> None:
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


async def send_pieces(more: Callable[[], Awaitable[bytes]], receive: Any, send: Any) -> None:
    """The rest of an answer: what ``more`` gives until that is nothing or the client is gone. It is asked when the
    client has taken most of what was sent before."""
    gone = asyncio.create_task(_disconnected(receive))
    try:
        while True:
            await send({"type": "http.response.body", "body": b"", "more_body": True})  # returns when there is room
            if gone.done() or not (piece := await more()):
                break
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not gone.done():
            await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def environ_of(scope: Any) -> dict[str, Any]:
    """Headers with an underscore are left out: they would pass for those with a hyphen."""
    host, port = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "asgi.scope": scope,
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 0),
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").upper(), raw_value.decode("latin-1")
        if "_" in name or name in ("TRANSFER-ENCODING", "CONTENT-LENGTH"):
            continue
        key = "CONTENT_TYPE" if name == "CONTENT-TYPE" else f"HTTP_{name.replace('-', '_')}"
        before = environ.get(key)
        environ[key] = value if before is None else f"{before}{'; ' if name == 'COOKIE' else ','}{value}"
    return environ
