"""Django's request, which takes all text for UTF-8, whatever charset a client names, and believes one session at most.

For a charset Django would read the query before anything is ready to answer an error in it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.http.cookie import parse_cookie
from django.utils.functional import cached_property
from django.utils.http import parse_header_parameters


class _Ours:
    content_type: str | None
    content_params: dict[str, str] | None
    META: dict[str, Any]

    def _set_content_type_params(self, meta: Any) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except ValueError:
            self.content_type, self.content_params = "", {}
        self.content_params.pop("charset", None)

    @cached_property
    def COOKIES(self) -> dict[str, str]:
        return cookies_of(self.META.get("HTTP_COOKIE", ""))


class PageRequest(_Ours, WSGIRequest):  # type: ignore[override]
    pass


class StreamRequest(_Ours, ASGIRequest):  # type: ignore[override]
    pass


def cookies_of(header: str) -> dict[str, str]:
    """The cookies of a Cookie header, without an ambiguous session. A page of another origin below the same domain, or
    on another port of the same host, may set cookies that browsers send to us as well: of two that differ at most one
    is ours, so neither is believed."""
    cookies = parse_cookie(header)
    name = settings.SESSION_COOKIE_NAME
    if name in cookies and _differ(header, name, cookies[name]):
        del cookies[name]
    return cookies


def _differ(header: str, name: str, value: str) -> bool:
    if header.count(name) < 2:
        return False
    values = [parse_cookie(part).get(name) for part in header.split(";")]
    return any(each not in (None, value) for each in values)
