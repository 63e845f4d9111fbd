"""One ASGI callable: live streams on the event loop, files by the WebHDFS gateway, everything else in threads through
Django's WSGI handler.

Ordinary pages are several times faster there than on Django's own ASGI path, where each middleware hops threads.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from a2wsgi import WSGIMiddleware
from django.core.handlers.asgi import ASGIHandler
from django.core.wsgi import get_wsgi_application

_THREADS = 16  # each keeps its database connection
_wsgi: Any = get_wsgi_application()

from portal.proxies import believing
from portal.webhdfs import app as _files
from portal.webhdfs.messages import is_ours as _is_file

_pages: Any = WSGIMiddleware(_wsgi, workers=_THREADS)


class _Streams(ASGIHandler):
    """Django gives each request a thread for its middleware, and keeps it, with its database connection, until the
    response ends. A stream may stay open for hours: here they all share one."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)


_streams = _Streams()


async def _application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"].startswith("/stream/"):
        await _streams(scope, receive, send)
    elif scope["type"] == "http" and _is_file(scope["path"]):
        await _files.application(scope, receive, send)
    else:
        await _pages(scope, receive, send)


application = believing(_application)
