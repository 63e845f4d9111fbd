"""Places of guests at live streams: few, so that those who have signed in are not delayed by them.

A stream without a session's cookie takes one before Django sees it; one with a cookie that opens nothing, when that is
known. It is given back when the request ends. All of this happens on the event loop.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Any

from django.conf import settings

from base.core.errors import TooManyAtOnce

_SEAT = "longshore.seat"  # of a scope's state: whether this stream has a place
taken = 0  # places, of this process


def begin(scope: Any) -> None:
    """A stream begins. It takes a place already when its request names no session. Raises TooManyAtOnce."""
    scope["state"][_SEAT] = False
    if not _names_a_session(scope["headers"]):
        take(scope)


def take(scope: Any) -> None:
    """Take a place for a stream that has turned out to be a guest's; again is free. Raises TooManyAtOnce."""
    global taken
    if scope.get("state", {}).get(_SEAT) is not False:
        return
    if taken >= settings.GUEST_STREAMS:
        raise TooManyAtOnce("Too many guests watch at once. Sign in, or try again later.")
    taken += 1
    scope["state"][_SEAT] = True


def end(scope: Any) -> None:
    """The stream has ended: give its place back, if it has one."""
    global taken
    taken -= scope["state"][_SEAT]


def _names_a_session(headers: Any) -> bool:
    for name, value in headers:
        if name == b"cookie":
            try:
                if settings.SESSION_COOKIE_NAME in SimpleCookie(value.decode("latin-1")):
                    return True
            except CookieError:
                continue
    return False
