"""Sends the parts of an open page that have changed: one event stream for each page, drawn from the page's templates.

    retry: 3000
    event: parts          {"<element id>": "<html>", ...}: at most one message a second
    : comment             every 15 s, so that proxies keep the connection

A wake-up (base.wakes.wake, topic pages) makes a stream read the page's version, which is one cheap query. Only a new
version is drawn, and only parts with a new content are sent. Everything that blocks runs in a few shared threads, so a
hundred open streams take a hundred tasks of the event loop and four database connections.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from base.core.errors import LongshoreError
from base.core.threads import in_thread
from base.serving import guest_slots
from base.wakes.wake import hub
from portal.shared.live.page import LivePage, Pages, open_page
from portal.shared.live.stream_access import while_allowed
from portal.shared.middleware import zone_of

INTERVAL = 1.0  # seconds between two messages of one stream
HEARTBEAT = 15.0  # seconds between two comments
_THREADS = 4
_TICKING = re.compile(r"(<time data-[^>]*>)[^<]*")  # durations, which the browser counts by itself

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="stream")


@require_safe
async def page_stream(request: HttpRequest, pages: Pages) -> HttpResponseBase:
    """Query: page (one of ``pages``), v, and the query of the page's own address."""
    try:
        shown = await in_thread(open_page, request, pages, pool=_pool)
        if not request.user.is_authenticated:
            guest_slots.take(getattr(request, "scope", {}))
    except LongshoreError as error:
        return HttpResponse(error.message, status=error.status, content_type="text/plain")
    events = while_allowed(request, shown.require, _events(request, shown))
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response


async def _events(request: HttpRequest, shown: LivePage) -> AsyncGenerator[str]:
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    seen, sent = request.GET.get("v", ""), dict[str, str]()
    beat_at = loop.time()
    hub.join(loop, woken)
    try:
        yield "retry: 3000\n\n"
        while True:
            woken.clear()
            began = loop.time()
            try:
                seen, message = await in_thread(_news, request, shown, seen, sent, pool=_pool)
            except LongshoreError:  # what the page is of has gone: the browser asks once more, and is answered with 404
                return
            if message:
                yield message
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), HEARTBEAT)
            if loop.time() - beat_at > HEARTBEAT:
                beat_at = loop.time()
                yield ": still here\n\n"
            await asyncio.sleep(max(0.0, began + INTERVAL - loop.time()))
    finally:
        hub.leave(woken)


def _news(request: HttpRequest, shown: LivePage, seen: str, sent: dict[str, str]) -> tuple[str, str]:
    """The version now, and the message for the browser, which may be empty. Without a database both stay as they were:
    the stream tries again later."""
    try:
        version = shown.version()
        if version == seen:
            return seen, ""
        with timezone.override(zone_of(request)):
            parts = shown.parts()
    except DatabaseError:
        return seen, ""
    changed = {}
    for name, html in parts.items():
        digest = hashlib.blake2b(_TICKING.sub(r"\1", html).encode(), digest_size=16).hexdigest()
        if sent.get(name) != digest:
            sent[name] = digest
            changed[name] = html
    return version, f"event: parts\ndata: {json.dumps(changed)}\n\n" if changed else ""
