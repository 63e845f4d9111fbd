"""WebSockets: which address is whose, and how many there may be.

An opening that is refused is never accepted: the answer is plain HTTP with a status and a sentence. Browsers hide that
answer from scripts, so a GET of a socket's address should give the same sentence.
"""

from __future__ import annotations

import io
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest

from base.core.errors import BadRequest, LongshoreError, NotFound, TooManyAtOnce
from base.serving.sockets import Closed, Socket
from portal.shared.requests import StreamRequest

log = structlog.get_logger()

Handler = Callable[[Socket, HttpRequest, dict[str, str]], Awaitable[None]]


class Sockets:
    """The ASGI application of all sockets. ``routes``: for each kind a pattern of its path and who serves it. A handler
    decides who may open it, accepts it and returns when it is over. A LongshoreError that it raises before it accepts
    is the answer to the client."""

    def __init__(self, routes: Sequence[tuple[re.Pattern[str], Handler]]) -> None:
        self._routes = routes
        self._open = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        socket = Socket(receive, send)
        self._open += 1
        try:
            await self._serve(socket, scope)
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

    async def _serve(self, socket: Socket, scope: Any) -> None:
        if self._open > settings.CONNECTIONS // 2:
            raise TooManyAtOnce("There are too many open sockets. Try again later.")
        for pattern, handler in self._routes:
            if match := pattern.fullmatch(scope["path"]):
                await handler(socket, _opening(scope), match.groupdict())
                return
        raise NotFound("There is no socket at this address.")


def _opening(scope: Any) -> HttpRequest:
    """The opening of a WebSocket as Django sees one: cookies, query, headers, address of the client."""
    kind = {"type": "http", "method": "GET", "scheme": "https" if scope.get("scheme") == "wss" else "http"}
    return StreamRequest({**scope, **kind}, io.BytesIO())
