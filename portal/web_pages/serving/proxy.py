"""The pages' own origin, as an ASGI application: opens with a ticket, then carries requests and WebSockets to the
container and back.

Nothing here has a thread for as long as a client is connected. Bodies stream in both directions, a piece at a time, and
wait for whoever takes them. When a visitor loses the right to a page, whatever they have open is cut off.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import aiohttp
from aiohttp import WSMsgType

from base.serving.sockets import first_of
from jobs.config.web_pages import PREFIX
from jobs.web_pages.addresses import ENTER, OWN, PagePlace, Setup, place_of
from jobs.web_pages.visits import Target
from portal.web_pages.serving import answers, headers
from portal.web_pages.serving.headers import Reserved
from portal.web_pages.serving.upstream import FAULTS, Unanswered, UpstreamClient
from portal.web_pages.serving.visitors import SOCKETS, OpenConnection, Visitors

_WITHDRAWN = 4401  # the code with which the portal itself ends a WebSocket

_TOKEN = re.compile(r"[0-9a-f]{16,64}")
Redeem = Callable[[str, PagePlace, list[tuple[str, str]]], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class _Way:
    """The way from one visitor to one container."""

    place: PagePlace
    target: Target
    keeps: bool  # the container knows its prefix
    open: OpenConnection


class Proxy:
    """``redeem`` takes a ticket, the place it is for and the cookies of the request, and gives the cookie for that page
    or None; ``is_ours`` says whether a bearer token is one of the portal's."""

    def __init__(
        self,
        setup: Setup,
        reserved: Reserved,
        door: Visitors,
        hop: UpstreamClient,
        redeem: Redeem,
        is_ours: Callable[[str], bool],
    ) -> None:
        self._setup, self._reserved, self._door, self._hop = setup, reserved, door, hop
        self._redeem, self._is_ours = redeem, is_ours

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        head = dict(reversed(scope["headers"]))  # of several of one name the first
        place = place_of(self._setup, head.get(b"host", b"").decode("latin-1"), scope["path"], _scheme(scope))
        is_socket = scope["type"] == "websocket"
        if place is None:
            await _say(send, is_socket, answers.plain(404, "There is no page here."))
        elif not is_socket and scope["path"].startswith(f"{place.prefix}{OWN}"):
            await self._enter(scope, place, send)
        elif headers.is_foreign(b"" if is_socket else scope["method"].encode(), head, place):
            says = "A page of another origin may lead here, and do nothing else."
            await _say(send, is_socket, answers.plain(403, says))
        else:
            await self._visit(scope, receive, send, place)

    async def _enter(self, scope: Any, place: PagePlace, send: Any) -> None:
        """Takes a ticket, and leads on without it."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        ticket, token, session = (query.get(name, [""])[0] for name in ("ticket", "token", "session"))
        cookie = None
        if scope["path"] == f"{place.prefix}{ENTER}" and scope["method"] == "GET" and ticket:
            cookie = await self._redeem(ticket, place, headers.cookies_of(scope["headers"]))
        if cookie is None:
            await answers.send(send, answers.used_ticket(self._setup.public_url))
            return
        path = await self._first_path(place, cookie)
        path += f"?token={token}" if _TOKEN.fullmatch(token) else ""  # by which a notebook knows its owner
        await answers.send(send, answers.entered(place, cookie, path, session if _TOKEN.fullmatch(session) else ""))

    async def _first_path(self, place: PagePlace, cookie: str) -> str:
        """Where the page begins. A program that was started with its prefix has it wherever it is shown."""
        visit = await self._door.visit([cookie], place.key)
        if place.prefix or visit is None or visit[1].target is None:
            return f"{place.prefix}/"
        with suppress(Unanswered):
            if await self._hop.keeps_prefix(visit[1].target, place.key):
                return f"{PREFIX}{place.key}/"
        return "/"

    async def _visit(self, scope: Any, receive: Any, send: Any, place: PagePlace) -> None:
        is_socket = scope["type"] == "websocket"
        name = answers.cookie_name(place)
        values = [value for key, value in headers.cookies_of(scope["headers"]) if key == name]
        opening = await self._door.visit(values, place.key)
        if opening is None:
            await _say(send, is_socket, answers.not_open(self._setup.public_url))
            return
        cookie, visit = opening
        if visit.target is None:
            await _say(send, is_socket, answers.not_there(visit, visit.says))
            return
        if is_socket and not self._door.has_room(visit.viewer):
            await _say(send, True, answers.plain(429, f"You have {SOCKETS} WebSockets of web pages open. Close some."))
            return
        try:
            keeps = bool(place.prefix) and await self._hop.keeps_prefix(visit.target, place.key)
            with self._door.opened(cookie, visit.target.task_id, visit.viewer if is_socket else "") as one:
                carry = self._carry_socket if is_socket else self._carry
                await carry(scope, receive, send, _Way(place, visit.target, keeps, one))
        except Unanswered as error:
            await _say(send, is_socket, answers.not_there(visit, answers.sentence(error.cause)))

    async def _carry(self, scope: Any, receive: Any, send: Any, way: _Way) -> None:
        """One request and its answer. Raises Unanswered before the answer has begun; one that breaks off later breaks
        off for the visitor too."""
        body = _Body(receive, any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]))
        asked = headers.to_container(scope["headers"], way.place, self._reserved, self._is_ours)
        path = headers.path_for(_raw(scope), way.place, keeps=way.keeps)
        asking = self._hop.ask(way.target, scope["method"], path, asked, body.pieces() if body.is_there else None)
        try:
            answer = await _unless(asking, way.open, body)
        except FAULTS as error:
            raise Unanswered(error) from error
        if answer is None:
            return
        async with answer:
            if answer.status not in range(200, 600):  # 101 too: this request asked for no other protocol
                says = f"The container answered with status {answer.status}, which is none of a finished answer."
                await answers.send(send, answers.plain(502, says))
                return
            with suppress(*FAULTS):
                await _unless(self._answer(scope, send, answer, way), way.open, body)

    async def _answer(self, scope: Any, send: Any, answer: aiohttp.ClientResponse, way: _Way) -> None:
        shown = headers.to_visitor(answer.raw_headers, way.place, self._reserved, keeps=way.keeps)
        if answer.status in (204, 304):
            shown = [each for each in shown if each[0] != b"content-length"]
        await send({"type": "http.response.start", "status": answer.status, "headers": shown})
        if scope["method"] != "HEAD":
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _carry_socket(self, scope: Any, receive: Any, send: Any, way: _Way) -> None:
        asked = headers.to_container(scope["headers"], way.place, self._reserved, self._is_ours)
        path = headers.path_for(_raw(scope), way.place, keeps=way.keeps)
        try:
            socket = await self._hop.join(way.target, path, asked, list(scope.get("subprotocols") or ()))
        except aiohttp.WSServerHandshakeError as error:
            status = error.status if error.status in range(400, 600) else 502
            await _say(send, True, answers.plain(status, "The container wants no WebSocket here."))
            return
        except FAULTS as error:
            raise Unanswered(error) from error
        async with socket:
            await receive()  # websocket.connect
            await send({"type": "websocket.accept", "subprotocol": socket.protocol, "headers": []})
            await first_of(_to_container(receive, socket), _to_visitor(send, socket), way.open.ended.wait())
            with suppress(RuntimeError, OSError):  # the visitor may have closed it
                code = _WITHDRAWN if way.open.ended.is_set() else _code(socket.close_code)
                await send({"type": "websocket.close", "code": code})


class _Body:
    """A request's body in pieces, and the news that its sender has gone."""

    def __init__(self, receive: Any, is_there: bool) -> None:
        self.is_there = is_there
        self._receive = receive
        self._taken = asyncio.Event()
        self._is_gone = False
        if not is_there:
            self._taken.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_gone = True
                self._taken.set()
                raise ConnectionResetError("the visitor has gone")
            more = message.get("more_body", False)
            if data := message.get("body", b""):
                yield data
        self._taken.set()

    async def gone(self) -> None:
        await self._taken.wait()  # until then what comes are its pieces
        while not self._is_gone:
            self._is_gone = (await self._receive())["type"] == "http.disconnect"


async def _unless(doing: Awaitable[Any], opened: OpenConnection, body: _Body) -> Any:
    """What ``doing`` gives or raises; None when the visitor goes or loses the right before it is done."""
    task = asyncio.ensure_future(doing)
    await first_of(task, opened.ended.wait(), body.gone())
    return None if task.cancelled() else task.result()


async def _to_container(receive: Any, socket: aiohttp.ClientWebSocketResponse) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await socket.send_str(message["text"])
        else:
            await socket.send_bytes(message["bytes"])
    await socket.close(code=_code(message.get("code")))


async def _to_visitor(send: Any, socket: aiohttp.ClientWebSocketResponse) -> None:
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await send({"type": "websocket.send", "text": message.data})
        elif message.type is WSMsgType.BINARY:
            await send({"type": "websocket.send", "bytes": message.data})


async def _say(send: Any, is_socket: bool, answer: answers.OwnAnswer) -> None:
    if is_socket:
        await send({"type": "websocket.http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "websocket.http.response.body", "body": answer.body})
    else:
        await answers.send(send, answer)


def _code(code: int | None) -> int:
    """Return the code to close with. 1005 and 1006 may not be sent: they only say that none came."""
    return code if code is not None and (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999) else 1000


def _raw(scope: Any) -> str:
    """Path and query as they were asked for."""
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    query: bytes = scope["query_string"]
    return (raw + (b"?" + query if query else b"")).decode("latin-1")


def _scheme(scope: Any) -> str:
    return {"ws": "http", "wss": "https"}.get(scope["scheme"], str(scope["scheme"]))
