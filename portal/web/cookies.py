"""Reads the session's cookie. A page of another origin below the same domain, or on another port of the same host, may
set cookies that browsers send to us as well: of two that differ at most one is ours, so neither is believed."""

from __future__ import annotations

from django.conf import settings
from django.http.cookie import parse_cookie


def cookies_of(header: str) -> dict[str, str]:
    """The cookies of a Cookie header, without an ambiguous session."""
    found = parse_cookie(header)
    name = settings.SESSION_COOKIE_NAME
    if name in found and _differ(header, name, found[name]):
        del found[name]
    return found


def _differ(header: str, name: str, value: str) -> bool:
    if header.count(name) < 2:
        return False
    given = [parse_cookie(part).get(name) for part in header.split(";")]
    return any(each not in (None, value) for each in given)
