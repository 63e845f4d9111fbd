"""Places of guests at live streams: few, so that those who have signed in are not delayed by them.

A stream without a session's cookie takes one before Django sees it; one with a cookie that opens nothing, when that is
known. It is given back when the request ends.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from portal.core.errors import Crowded

_SEAT = "longshore.seat"


class Seat:
    """Of one request. Used on the event loop alone."""

    taken = 0  # by all

    def __init__(self) -> None:
        self._is_mine = False

    def take(self) -> None:
        """Raises Crowded. Again is free."""
        if self._is_mine:
            return
        if Seat.taken >= settings.GUEST_STREAMS:
            raise Crowded("Too many guests watch at once. Sign in, or try again later.")
        Seat.taken += 1
        self._is_mine = True

    def give_back(self) -> None:
        Seat.taken -= self._is_mine
        self._is_mine = False


def seat_for(scope: Any) -> Seat:
    """Taken already when the request names no session. Raises Crowded."""
    seat = Seat()
    if not _names_a_session(scope["headers"]):
        seat.take()
    scope["state"][_SEAT] = seat
    return seat


def take(request: HttpRequest) -> None:
    """For one that has turned out to be a guest's. Raises Crowded."""
    seat = getattr(request, "scope", {}).get("state", {}).get(_SEAT)
    if seat is not None:
        seat.take()


def _names_a_session(headers: Any) -> bool:
    for name, value in headers:
        if name == b"cookie":
            try:
                if settings.SESSION_COOKIE_NAME in SimpleCookie(value.decode("latin-1")):
                    return True
            except CookieError:
                continue
    return False
