"""Django's WSGI handler behind an event loop: a request has a thread while it is worked on, never while its client is
waited for. The body is read before; an answer leaves the thread in pieces, the next one when the client has taken most
of the last.
"""

from __future__ import annotations

import asyncio
import contextvars
import io
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from typing import Any

from django.db import close_old_connections

from base.core.errors import LongshoreError
from base.serving import bodies
from base.serving.connection import group

REFUSAL = "longshore.refusal"  # in the environ: the error to answer with instead of the page (portal.shared.middleware)
PIECE = 128 * 1024  # bytes of an answer that wait for its client in memory
UNTAKEN = 16 << 20  # bytes of large pieces that wait for the clients of an address, before it gets no further one
_UNTAKEN_BY_ALL = 128 << 20  # the same of all addresses: then those wait that have not taken what they asked for
_THREADS = 16  # each keeps its database connection
SILENT = 5.0  # seconds without an answer after which the database counts as down
_DOWN = b'{"status": "down", "database": false}'
_HEALTH = ("/healthz", "/metrics")  # answered also when all threads of pages are busy


class Bridge:
    """``limit``: bytes that the sender of this environ may send, more than ANONYMOUS; may look into the database."""

    def __init__(self, wsgi: Any, limit: Callable[[dict[str, Any]], int]) -> None:
        self._wsgi, self._limit = wsgi, limit
        self._pages = ThreadPoolExecutor(_THREADS, thread_name_prefix="pages")
        self._turns = FairThreadPool(_THREADS)
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
            body, size = io.BytesIO(), 0
            environ[REFUSAL] = error
        with body:
            environ |= {"wsgi.input": body, "CONTENT_LENGTH": str(size)}
            exchange = _Exchange(self._wsgi, environ)
            if scope["path"].startswith(_HEALTH):
                await self._tell_health(exchange, send)
                return
            address = group(environ["REMOTE_ADDR"])
            try:
                asks = receive if scope["method"] in ("GET", "HEAD") else None  # what changes something is done
                first = [await self._in_turn(address, exchange, asks)]
                await send({"type": "http.response.start", "status": exchange.status, "headers": exchange.headers})
                if exchange.ended and not exchange.untaken:
                    await send({"type": "http.response.body", "body": first[0]})
                    return
                async with aclosing(self._parts(address, exchange, first)) as parts:
                    await send({"type": "http.response.body", "body": await anext(parts), "more_body": True})
                    await send_pieces(lambda: anext(parts, b""), receive, send)
            except bodies.Gone:
                pass
            finally:
                self._note_taken(address, exchange)
                if not exchange.ended:
                    await loop.run_in_executor(self._pages, exchange.close)

    async def _parts(self, address: str, exchange: _Exchange, pieces: list[bytes]) -> AsyncGenerator[bytes]:
        """The answer in parts of about PIECE bytes. ``pieces`` has the first one, and is emptied: the client may take
        long, and what was sent must not stay in memory for that time."""
        while pieces[0]:
            if not exchange.untaken:
                yield pieces.pop()
            else:
                for at in range(0, len(pieces[0]), PIECE):
                    yield pieces[0][at : at + PIECE]
                pieces.clear()
                self._note_taken(address, exchange)
            pieces.append(b"" if exchange.ended else await self._in_turn(address, exchange))

    async def _in_turn(self, address: str, exchange: _Exchange, receive: Any = None) -> bytes:
        """Make the next piece in a thread of pages, when one of those for this address is free. Raises Gone where
        ``receive`` tells before that the client has left."""
        async with self._turns.take(address, receive):
            piece = await asyncio.get_running_loop().run_in_executor(self._pages, exchange.piece)
            if len(piece) > 2 * PIECE:  # what is made of small parts has less
                exchange.untaken = len(piece)
                self._turns.note_untaken(address, len(piece))
            return piece

    def _note_taken(self, address: str, exchange: _Exchange) -> None:
        if exchange.untaken:
            self._turns.note_untaken(address, -exchange.untaken)
            exchange.untaken = 0

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
        self.untaken = 0  # bytes of a large piece, until its client has taken it
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


class FairThreadPool:
    """Says who gets the next of so many threads, so that whoever sends what is slow keeps nobody else waiting.

    An address takes a thread only while more of them are free than it has already. So one alone has half of them at
    most, two have three quarters, and it takes five to have all of sixteen. Those that wait are served address by
    address. An address whose clients do not take large answers waits until they do. It is used on one event loop."""

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._held: Counter[str] = Counter()
        self._untaken: Counter[str] = Counter()  # bytes
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def take(self, address: str, receive: Any = None) -> AsyncIterator[None]:
        """Waits until this address may have one, and has it until the block ends. Raises Gone where ``receive`` tells
        before that the client has left."""
        await self._get(address, receive)
        try:
            yield
        finally:
            self._give_back(address)

    def note_untaken(self, address: str, size: int) -> None:
        """So many bytes more, or fewer, wait for clients of this address."""
        self._untaken[address] += size
        if not self._untaken[address]:
            del self._untaken[address]
        self._serve()

    async def _get(self, address: str, receive: Any) -> None:
        if address not in self._waiting and self._may(address):
            self._count(address, 1)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        gone = asyncio.create_task(_disconnected(receive)) if receive else None
        try:
            await asyncio.wait([turn, gone] if gone else [turn], return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                turn.cancel()
                raise bodies.Gone
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(address)
            turn.cancel()
            raise
        finally:
            if gone:
                gone.cancel()

    def _may(self, address: str) -> bool:
        if self._free <= self._held[address]:
            return False
        mine = self._untaken[address]
        return not mine or (mine < UNTAKEN and self._untaken.total() < _UNTAKEN_BY_ALL)

    def _count(self, address: str, number: int) -> None:
        self._free -= number
        self._held[address] += number
        if not self._held[address]:
            del self._held[address]

    def _give_back(self, address: str) -> None:
        self._count(address, -1)
        self._serve()

    def _serve(self) -> None:
        while (turn := self._next()) is not None:
            turn.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        """Who gets the thread that is free, counted as theirs already. Its address is the last to be asked again."""
        for address in [address for address in self._waiting if self._may(address)]:
            turns = self._waiting.pop(address)
            while turns and turns[0].cancelled():
                turns.popleft()
            if not turns:
                continue
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns
            self._count(address, 1)
            return turn
        return None
