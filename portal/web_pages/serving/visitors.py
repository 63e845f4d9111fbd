"""Lets visitors in, and puts those out who have lost their right: who is behind a cookie, and what they have open.

Every answer of the database is good for a second. What is open longer (a download, a WebSocket) is looked up again as
often, all of it in the same few queries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import DatabaseError

from jobs.web_pages.visits import Visit

GOOD_FOR = 1.0  # seconds
BLIND_FOR = 10.0  # seconds without the database after which nothing stays open
SOCKETS = 32  # WebSockets that one visitor may have open, of all pages
_MOST_KEPT = 10_000

Check = Callable[[Collection[str]], Awaitable[Mapping[str, Visit]]]


@dataclass(eq=False)
class OpenConnection:
    """Something that a visitor has open. ``ended`` is set when it must be closed; ``task_id`` is what it leads to;
    ``socket_of`` is whose WebSocket it is, if it is one."""

    cookie: str
    task_id: int
    socket_of: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Visitors:
    """``check``: the visits behind these cookies, as visits.check answers. Used on one event loop."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._known: dict[str, tuple[float, Visit | None]] = {}
        self._asking: dict[str, asyncio.Task[Visit | None]] = {}
        self._open: set[OpenConnection] = set()
        self._is_any = asyncio.Event()  # set while something is open
        self._seen = time.monotonic()  # when the database last answered

    async def visit(self, cookies: Collection[str], key: str) -> tuple[str, Visit] | None:
        """The one of these cookies that opens this page, and its visit."""
        for cookie in cookies:
            visit = await self._find(cookie)
            if visit is not None and visit.key == key:
                return cookie, visit
        return None

    @contextmanager
    def opened(self, cookie: str, task_id: int, socket_of: str = "") -> Iterator[OpenConnection]:
        entry = OpenConnection(cookie, task_id, socket_of)
        self._open.add(entry)
        self._is_any.set()
        try:
            yield entry
        finally:
            self._open.discard(entry)
            if not self._open:
                self._is_any.clear()

    def has_room(self, viewer: str) -> bool:
        """Whether they may open one more WebSocket: a message of each is in memory until it is whole."""
        return sum(each.socket_of == viewer for each in self._open) < SOCKETS

    async def watch(self) -> None:
        """Look again and again whether all may stay, until it is cancelled. While nothing is open it sleeps."""
        while True:
            await self._is_any.wait()
            await asyncio.sleep(GOOD_FOR)
            await self._look()

    async def _look(self) -> None:
        watched = list(self._open)
        if not watched:
            return
        try:
            visits = await self._check({each.cookie for each in watched})
        except (DatabaseError, OSError):
            visits = None
        now = time.monotonic()
        if visits is not None:
            self._seen = now
        elif now - self._seen < BLIND_FOR:
            return
        for each in watched:
            visit = visits.get(each.cookie) if visits else None
            self._keep(each.cookie, visit, now)
            if visit is None or visit.target is None or visit.target.task_id != each.task_id:
                each.ended.set()

    async def _find(self, cookie: str) -> Visit | None:
        at, visit = self._known.get(cookie, (0.0, None))
        if time.monotonic() - at < GOOD_FOR:
            return visit
        asking = self._asking.get(cookie)
        if asking is None:
            asking = asyncio.create_task(self._ask(cookie))
            self._asking[cookie] = asking
            asking.add_done_callback(lambda _: self._asking.pop(cookie, None))
        return await asyncio.shield(asking)

    async def _ask(self, cookie: str) -> Visit | None:
        visit = (await self._check([cookie])).get(cookie)
        self._seen = time.monotonic()
        self._keep(cookie, visit, self._seen)
        return visit

    def _keep(self, cookie: str, visit: Visit | None, now: float) -> None:
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        self._known[cookie] = now, visit
