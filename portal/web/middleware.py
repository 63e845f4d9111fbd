"""What every request passes: security headers, answers to our own errors, and an id for the log."""

from __future__ import annotations

import re
import uuid
from datetime import tzinfo
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin

from portal.core.errors import BadRequest, LongshoreError, is_disk_full
from portal.web.api.answers import database_away, disk_full
from portal.web.error_pages import error_answer
from portal.web.serving.bridge import REFUSAL

_CSP = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'"
)


def allow_styles(response: HttpResponseBase, nonce: str) -> None:
    """Let the scripts of this page make style elements that bear the nonce, as CodeMirror and xterm.js do."""
    response.headers["Content-Security-Policy"] = f"{_CSP}; style-src 'self' 'nonce-{nonce}'"


class SecurityHeaders(MiddlewareMixin):
    """Also lets a route declared without a trailing slash answer a request that has one."""

    def process_request(self, request: HttpRequest) -> None:
        request.path_info = request.path_info.rstrip("/") or "/"
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=uuid.uuid4().hex[:12])

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", _CSP)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Referrer-Policy", "same-origin")
        if settings.IS_HTTPS and settings.HSTS and request.is_secure():
            response.headers.setdefault("Strict-Transport-Security", f"max-age={settings.HSTS}")
        return response


class Zone(MiddlewareMixin):
    """Times are shown in the reader's zone: the browser names it in a cookie. Without the cookie it is the server's."""

    def process_request(self, request: HttpRequest) -> None:
        timezone.activate(zone_of(request))

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        timezone.deactivate()
        return response


def zone_of(request: HttpRequest) -> tzinfo:
    name = request.COOKIES.get("zone", "")
    try:
        return ZoneInfo(name) if _ZONE.fullmatch(name) else timezone.get_default_timezone()
    except (KeyError, ValueError, OSError):  # no such zone, or a folder of them
        return timezone.get_default_timezone()


_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{1,40}")


class Errors(MiddlewareMixin):
    """Turns a LongshoreError of a page into an error page, and below ``/api`` into the JSON that API clients know; also
    an error that occurred before the request came here."""

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:
        error = request.META.get(REFUSAL)
        if error is None and "%00" in request.META.get("QUERY_STRING", ""):  # PostgreSQL refuses to look for it
            error = BadRequest("The query of the address holds a NUL character (%00), which no name or text can have.")
        return error_answer(request, error) if isinstance(error, LongshoreError) else None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        if isinstance(error, (OperationalError, InterfaceError)):
            error = database_away(error, request.path)
        elif is_disk_full(error):
            error = disk_full(error, request.path)
        return error_answer(request, error) if isinstance(error, LongshoreError) else None
