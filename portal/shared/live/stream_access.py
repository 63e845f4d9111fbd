"""Ends a live stream within 5 s when its reader may not read it any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import DatabaseError, close_old_connections
from django.http import HttpRequest

from base.accounts.viewer import Viewer, viewer_in
from base.core.errors import LongshoreError
from portal.shared.viewer import viewer_of

EVERY = 2.5  # seconds between two checks
_KNOWN = 1.0  # seconds that the user of a session is remembered, for all streams of the session
_pool = ThreadPoolExecutor(2, thread_name_prefix="welcome")
_users: dict[str, tuple[float, Any]] = {}


async def while_allowed(
    request: HttpRequest, require: Callable[[Viewer], object], events: AsyncGenerator[str]
) -> AsyncIterator[str]:
    """The events, until the reader may not read them. ``require`` is called in a thread with the user as they are now,
    and raises a LongshoreError for one that may not."""
    loop = asyncio.get_running_loop()
    due, step = loop.time() + EVERY, _next(events)
    try:
        while True:
            await asyncio.wait({step}, timeout=max(0.0, due - loop.time()))
            if loop.time() >= due:
                if not await loop.run_in_executor(_pool, _is_welcome, request, require):
                    return
                due = loop.time() + EVERY
            if step.done():
                try:
                    event = step.result()
                except StopAsyncIteration:
                    return
                yield event
                step = _next(events)
    finally:
        step.cancel()
        await asyncio.wait({step})
        await events.aclose()


def _next(events: AsyncGenerator[str]) -> asyncio.Future[str]:
    return asyncio.ensure_future(anext(events))


def _is_welcome(request: HttpRequest, require: Callable[[Viewer], object]) -> bool:
    """False when the session has ended, the user was disabled or lost a right. While the database is away the stream
    goes on: nothing can have changed."""
    close_old_connections()
    try:
        user = _user_now(request)
        require(user)
        return _standing(user) == _standing(viewer_of(request))
    except DatabaseError:
        return True
    except LongshoreError:
        return False


def _standing(user: Any) -> tuple[Any, ...]:
    """What of the user decides what a stream shows. When it changes the stream ends, and the browser opens another."""
    return user.pk, user.role


def _user_now(request: HttpRequest) -> Any:
    key = request.session.session_key
    if key is None:
        return viewer_of(request)  # a guest stays one
    at, user = _users.get(key, (0.0, None))
    if time.monotonic() - at > _KNOWN or user is None:
        if len(_users) > 10_000:
            _users.clear()
        user = viewer_in(type(request.session)(key))
        _users[key] = time.monotonic(), user
    return user
