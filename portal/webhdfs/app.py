"""The gateway as an ASGI application with threads of its own: a slow transfer holds up no page.

Bytes pass in pieces both ways. A caller who goes away in the middle of an upload is an error to the store, which then
keeps nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from django.db import close_old_connections

from portal.errors import LongshoreError
from portal.webhdfs.messages import Answer, Request, params_in, path_in
from portal.webhdfs.operations import refused, respond

THREADS = 32  # operations at work at once; a download holds one only while it reads
log = structlog.get_logger()
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhdfs")


class CallerGone(Exception):
    """The connection was closed before all of the body had come."""


async def application(scope: Any, receive: Any, send: Any) -> None:
    loop = asyncio.get_running_loop()
    body = _Body(loop, receive) if _has_body(scope) else None
    try:
        answer = await loop.run_in_executor(_threads, _handle, scope, body)
    except CallerGone:
        return
    if body is not None and not body.ended:
        answer = Answer(answer.status, {**answer.headers, "Connection": "close"}, answer.body)
    await _send(loop, answer, receive, send, head=scope["method"] == "HEAD")


def _handle(scope: Any, body: _Body | None) -> Answer:
    close_old_connections()
    try:
        return respond(_request(scope, body))
    except LongshoreError as error:
        return refused(error)
    except CallerGone:
        raise
    except Exception as error:
        if body is not None and body.gone:
            raise CallerGone from None
        log.exception("an operation on files failed", method=scope["method"])
        return refused(LongshoreError(f"The portal failed: {type(error).__name__}."))
    finally:
        close_old_connections()


def _request(scope: Any, body: _Body | None) -> Request:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    raw = scope.get("raw_path") or scope["path"].encode()
    host = headers.get("host") or "localhost"
    return Request(
        method=scope["method"],
        path=path_in(raw),
        params=params_in(scope["query_string"]),
        headers=headers,
        address=(scope.get("client") or ("",))[0],
        url=f"{scope.get('scheme', 'http')}://{host}{raw.decode('latin-1')}",
        body=body,
    )


def _has_body(scope: Any) -> bool:
    headers = dict(scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


class _Body(Iterator[bytes]):
    """The request's body for a thread of the pool. Raises CallerGone when it breaks off."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Any) -> None:
        self._loop, self._receive = loop, receive
        self.ended = self.gone = False

    def __next__(self) -> bytes:
        if self.ended:
            raise StopIteration
        message = asyncio.run_coroutine_threadsafe(self._receive(), self._loop).result()
        if message["type"] == "http.disconnect":
            self.gone = True
            raise CallerGone
        self.ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))


async def _send(loop: asyncio.AbstractEventLoop, answer: Answer, receive: Any, send: Any, *, head: bool) -> None:
    whole = isinstance(answer.body, bytes)
    headers = dict(answer.headers)
    if whole:
        headers.setdefault("Content-Length", str(len(answer.body)))  # type: ignore[arg-type]
    coded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": coded})
    if whole or head:
        body = b"" if head else answer.body
        await send({"type": "http.response.body", "body": body})
        _close(answer.body)
        return
    await _send_pieces(loop, answer.body, receive, send)  # type: ignore[arg-type]


async def _send_pieces(loop: asyncio.AbstractEventLoop, pieces: Iterator[bytes], receive: Any, send: Any) -> None:
    gone = loop.create_task(_disconnected(receive))
    try:
        while not gone.done() and (piece := await loop.run_in_executor(_threads, next, pieces, b"")):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        _close(pieces)


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _close(body: Any) -> None:
    if hasattr(body, "close"):
        body.close()
