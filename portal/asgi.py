"""One ASGI callable: live streams and WebSockets on the event loop, files by the WebHDFS gateway, everything else in
threads through Django's WSGI handler.

Ordinary pages are several times faster there than on Django's own ASGI path, where each middleware hops threads.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections import Counter
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections

_UNUSED = [name for name in ("django.contrib.postgres", "requests") if name not in sys.modules]
sys.modules |= dict.fromkeys(_UNUSED)  # type: ignore[arg-type]  # None: it is as if they were not installed

# It loads them where they are there, for features that nobody here uses: a sixth of this start, and 10 MB.
import rest_framework.compat  # noqa: F401

for _name in _UNUSED:
    del sys.modules[_name]

django.setup(set_prefix=False)

from base.core import linux
from base.core.errors import TooManyAtOnce
from base.core.threads import in_thread
from base.serving import bodies, guest_slots
from base.serving.bridge import Bridge
from base.serving.connection import MANY, group, trusting_proxies
from base.serving.sockets import Socket
from base.wakes import processes
from jobs.terminal import shells
from portal.shared.api.repeated import Handler
from portal.shared.requests import StreamRequest
from portal.shared.sockets import Sockets
from portal.terminal import sockets, tunnel
from portal.webhdfs import app
from portal.webhdfs.call import is_signed_in
from portal.webhdfs.messages import is_ours


def _limit(environ: dict[str, Any]) -> int:
    """Bytes that this body may have beyond what is accepted from anybody."""
    close_old_connections()
    if not is_signed_in(environ.get("HTTP_AUTHORIZATION", ""), environ.get("HTTP_COOKIE", "")):
        return bodies.ANONYMOUS
    return bodies.UPLOAD if environ["PATH_INFO"].startswith("/files") else bodies.SIGNED_IN


if (parent := multiprocessing.parent_process()) is not None:  # one of several web processes
    linux.die_with_parent()  # nobody else would end it when its parent is killed
    if os.getppid() != parent.pid:  # killed before that
        raise SystemExit(1)
_pages = Bridge(Handler(), _limit)
_under_way: Counter[str] = Counter()  # requests of each address


class _Streams(ASGIHandler):
    """Live streams. Django gives each request a thread for its middleware, and keeps that thread, with its database
    connection, until the response ends. A stream may stay open for hours; here all streams share one."""

    request_class = StreamRequest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)


_streams = _Streams()
_sockets = Sockets([(sockets.PATH, sockets.serve), (tunnel.PATH, tunnel.serve)])


async def _application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _live(receive, send)
    else:
        await _counted(scope, receive, send)


async def _live(receive: Any, send: Any) -> None:
    shown = processes.heartbeat_thread("web")
    while (await receive())["type"] == "lifespan.startup":
        shown.ensure_running()
        await send({"type": "lifespan.startup.complete"})
    shown.stop()
    await shells.own_shells().close()
    await in_thread(processes.forget_process, "web")
    await send({"type": "lifespan.shutdown.complete"})


async def _counted(scope: Any, receive: Any, send: Any) -> None:
    """Limits the requests at once from one address, also when they all come over the connections of one proxy."""
    address = group((scope.get("client") or ("",))[0])
    if _under_way[address] >= settings.CONNECTIONS_PER_ADDRESS:
        is_socket = scope.get("type") == "websocket"
        await (Socket(receive, send).refuse(TooManyAtOnce(MANY)) if is_socket else _refuse(MANY, send))
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
    elif is_ours(scope["path"]):
        await app.application(scope, receive, send)
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
        guest_slots.begin(scope)
    except TooManyAtOnce as error:
        await _refuse(error.message, send)
        return
    try:
        await _streams(scope, receive, send)
    finally:
        guest_slots.end(scope)


async def _refuse(words: str, send: Any, status: int = 503) -> None:
    head = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": words.encode()})


application = trusting_proxies(_application)
gc.collect()
gc.freeze()  # what is loaded now stays: to look through all of it again and again made some requests slow
