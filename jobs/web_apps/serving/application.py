"""Puts the parts of the pages' own origin together: the door asks the database in threads, the rest is on one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.conf import settings
from django.db import close_old_connections

from jobs.web_apps import origin, visits
from jobs.web_apps.addresses import Place
from jobs.web_apps.serving.door import Door
from jobs.web_apps.serving.headers import Reserved
from jobs.web_apps.serving.hop import Hop
from jobs.web_apps.serving.proxy import Proxy
from portal.accounts import tokens
from portal.core.threads import in_thread
from portal.wakes import processes

T = TypeVar("T")
_THREADS = 2  # each keeps its database connection
_OTHERS = ("zone", "theme", "messages")  # what the portal's pages and scripts set beside session and form token


class Application:
    """An ASGI application that makes its parts on the event loop it runs on."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="visits")
        self._proxy: Proxy | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            assert self._proxy is not None
            await self._proxy(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        hop = Hop()
        door = Door(lambda cookies: self._ask(lambda: visits.check(cookies)))
        self._proxy = Proxy(origin.setup(), reserved(), door, hop, self._redeem, tokens.is_ours)
        watching, shown = asyncio.create_task(door.watch()), processes.shown("web pages")
        shown.keep()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        shown.stop()
        watching.cancel()
        await hop.close()
        await in_thread(processes.leave, "web pages")
        await send({"type": "lifespan.shutdown.complete"})

    async def _redeem(self, ticket: str, place: Place, cookies: list[tuple[str, str]]) -> str | None:
        """Where all pages share a host name, the browser sends the portal's session too. It must be the one that asked
        for the ticket: else somebody could lead others to their own page there."""
        session = None
        if not place.is_alone:
            session = next((value for name, value in cookies if name == settings.SESSION_COOKIE_NAME), "")
        return await self._ask(lambda: visits.redeem(ticket, place.key, session))

    async def _ask(self, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, _asked, question)


def reserved() -> Reserved:
    """The cookies of the portal."""
    return Reserved(frozenset({settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, *_OTHERS}))


def _asked(question: Callable[[], T]) -> T:
    close_old_connections()
    return question()
