"""One ASGI callable: live streams and WebSockets on the event loop, files by the WebHDFS gateway, everything else in
threads through Django's WSGI handler.

Ordinary pages are several times faster there than on Django's own ASGI path, where each middleware hops threads.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections import Counter
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections

_wsgi: Any = get_wsgi_application()

from jobs.terminal import shells
from jobs.terminal import sockets as terminals
from portal.core import deathsig
from portal.core.errors import Crowded
from portal.core.threads import in_thread
from portal.files.webhdfs import app as _files
from portal.files.webhdfs import who
from portal.files.webhdfs.messages import is_ours as _is_file
from portal.wakes import processes
from portal.web.requests import PageRequest, StreamRequest
from portal.web.serving import bodies, seats
from portal.web.serving.bridge import Bridge
from portal.web.serving.connection import MANY, group
from portal.web.serving.proxies import believing
from portal.web.serving.sockets import Sockets


def _limit(environ: dict[str, Any]) -> int:
    """Bytes that this body may have beyond what is accepted from anybody."""
    close_old_connections()
    if not who.is_signed_in(environ.get("HTTP_AUTHORIZATION", ""), environ.get("HTTP_COOKIE", "")):
        return bodies.ANONYMOUS
    return bodies.UPLOAD if environ["PATH_INFO"].startswith("/files") else bodies.SIGNED_IN


if (parent := multiprocessing.parent_process()) is not None:  # one of several web processes
    deathsig.die_with_parent()  # nobody else would end it when its parent is killed
    if os.getppid() != parent.pid:  # killed before that
        raise SystemExit(1)
_wsgi.request_class = PageRequest
_pages = Bridge(_wsgi, _limit)
_under_way: Counter[str] = Counter()  # requests of each address


class _Streams(ASGIHandler):
    """Live streams. Django gives each request a thread for its middleware, and keeps that thread, with its database
    connection, until the response ends. A stream may stay open for hours; here all streams share one."""

    request_class = StreamRequest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)


_streams = _Streams()
_sockets = Sockets([(terminals.PATH, terminals.serve)])


async def _application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _live(receive, send)
    else:
        await _counted(scope, receive, send)


async def _live(receive: Any, send: Any) -> None:
    shown = processes.shown("web")
    while (await receive())["type"] == "lifespan.startup":
        shown.keep()
        await send({"type": "lifespan.startup.complete"})
    shown.stop()
    await shells.mine().close()
    await in_thread(processes.leave, "web")
    await send({"type": "lifespan.shutdown.complete"})


async def _counted(scope: Any, receive: Any, send: Any) -> None:
    """Limits the requests at once from one address, also when they all come over the connections of one proxy."""
    address = group((scope.get("client") or ("",))[0])
    if _under_way[address] >= settings.CONNECTIONS_PER_ADDRESS:
        await (_sockets.crowded(scope, receive, send) if scope.get("type") == "websocket" else _refuse(MANY, send))
        return
    _under_way[address] += 1
    try:
        await _dispatch(scope, receive, send)
    finally:
        _under_way[address] -= 1
        if not _under_way[address]:
            del _under_way[address]


async def _dispatch(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await _sockets(scope, receive, send)
    elif _is_file(scope["path"]):
        await _files.application(scope, receive, send)
    elif scope["path"].startswith("/stream/"):
        await _stream(scope, receive, send)
    else:
        await _pages(scope, receive, send)


async def _stream(scope: Any, receive: Any, send: Any) -> None:
    """Answers a stream's request without its body: Django would read one of any size."""
    if bodies.has_body(scope):
        await _refuse("A stream takes no body.", send, 413)
        return
    try:
        seat = seats.seat_for(scope)
    except Crowded as error:
        await _refuse(error.message, send)
        return
    try:
        await _streams(scope, receive, send)
    finally:
        seat.give_back()


async def _refuse(words: str, send: Any, status: int = 503) -> None:
    head = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": words.encode()})


application = believing(_application)
gc.collect()
gc.freeze()  # what is loaded now stays: to look through all of it again and again made some requests slow
