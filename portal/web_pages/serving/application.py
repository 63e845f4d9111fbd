"""Puts the parts of the pages' own origin together: the door asks the database in threads, the rest is on one loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings

from base.accounts import tokens
from base.core.threads import in_thread
from base.wakes import processes
from jobs.web_pages import origin, visits
from jobs.web_pages.addresses import PagePlace
from portal.web_pages.serving.proxy import Proxy
from portal.web_pages.serving.upstream import UpstreamClient
from portal.web_pages.serving.visitors import Visitors

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
        hop = UpstreamClient()
        door = Visitors(lambda cookies: in_thread(visits.check, cookies, pool=self._pool))
        own = {settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, *_OTHERS}
        self._proxy = Proxy(origin.setup(), own, door, hop, self._redeem, tokens.is_ours)
        watching, shown = asyncio.create_task(door.watch()), processes.heartbeat_thread("web pages")
        shown.ensure_running()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        shown.stop()
        watching.cancel()
        await hop.close()
        await in_thread(processes.forget_process, "web pages")
        await send({"type": "lifespan.shutdown.complete"})

    async def _redeem(self, ticket: str, place: PagePlace, cookies: list[tuple[str, str]]) -> str | None:
        """Where all pages share a host name, the browser sends the portal's session too. It must be the one that asked
        for the ticket: else somebody could lead others to their own page there."""
        session = None
        if not place.is_alone:
            session = next((value for name, value in cookies if name == settings.SESSION_COOKIE_NAME), "")
        return await in_thread(visits.redeem, ticket, place.key, session, pool=self._pool)
