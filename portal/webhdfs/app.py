"""The gateway as an ASGI application with threads of its own, so that a slow transfer delays no page.

Bytes pass in pieces both ways, and each piece takes a thread: between two pieces a transfer holds none. If an upload
breaks off, the store keeps nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from django.db import close_old_connections

from base.core.errors import LongshoreError
from base.core.threads import in_thread
from base.files.store.base import Writing
from base.serving.bodies import Gone, RequestBody, has_body
from base.serving.bridge import send_pieces
from base.serving.connection import be_patient
from portal.shared.api.answers import outage
from portal.webhdfs.messages import Answer, Request, json_answer, params_in, path_in
from portal.webhdfs.operations import refused, respond

THREADS = 32  # operations that may run at once
PATIENCE = 600.0  # seconds that an authorized transfer may pause
log = structlog.get_logger()
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhdfs")


async def application(scope: Any, receive: Any, send: Any) -> None:
    body = RequestBody(receive, PATIENCE) if has_body(scope) else None
    answer = await in_thread(_answer, scope, lambda: respond(_request(scope)), pool=_threads)
    if answer.into is not None:
        try:
            answer = await _fill(scope, answer, answer.into, body)
        except Gone:
            return
    if body is not None and not body.ended:
        answer = Answer(answer.status, {**answer.headers, "Connection": "close"}, answer.body)
    if not isinstance(answer.body, bytes):
        be_patient(scope, PATIENCE)
    await _send(answer, receive, send, head=scope["method"] == "HEAD")


async def _fill(scope: Any, answer: Answer, into: Writing, body: RequestBody | None) -> Answer:
    """Move the body into the store; the answer, or the error that says why it could not be stored. Raises Gone."""

    def keep() -> Answer:
        try:
            into.keep()
        except LongshoreError as error:
            return refused(error, answer.told)
        return answer if answer.told is None else json_answer(answer.told())

    try:
        while body is not None and (piece := await body.piece()):
            await in_thread(into.add, piece, pool=_threads)
        return await in_thread(_answer, scope, keep, pool=_threads)
    except LongshoreError as error:
        return refused(error, answer.told)
    except OSError as error:
        if (full := outage(error, scope["path"])) is None:
            raise
        return refused(full)
    finally:
        await in_thread(into.drop, pool=_threads)


def _answer(scope: Any, act: Callable[[], Answer]) -> Answer:
    try:
        return act()
    except LongshoreError as error:
        return refused(error)
    except Exception as error:
        if (away := outage(error, scope["path"])) is not None:
            return refused(away)
        log.exception("an operation on files failed", method=scope["method"])
        return refused(LongshoreError(f"The portal failed: {type(error).__name__}."))
    finally:
        close_old_connections()


def _request(scope: Any) -> Request:
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
        has_body=has_body(scope),
    )


async def _send(answer: Answer, receive: Any, send: Any, *, head: bool) -> None:
    body = answer.body
    headers = dict(answer.headers)
    if isinstance(body, bytes):
        headers.setdefault("Content-Length", str(len(body)))
    coded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": coded})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": b"" if head else body})
        return
    try:
        await send_pieces(lambda: in_thread(next, body, b"", pool=_threads), receive, send)
    finally:
        await in_thread(_close, body, pool=_threads)


def _close(body: Iterator[bytes]) -> None:
    if hasattr(body, "close"):
        body.close()
