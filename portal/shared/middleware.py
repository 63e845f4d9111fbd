"""What every request passes: compression, security headers, answers to our own errors, and an id for the log."""

from __future__ import annotations

import re
import uuid
from datetime import tzinfo

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin

from base.core import values
from base.core.errors import BadRequest, LongshoreError
from base.serving.bridge import REFUSAL
from portal.shared.api.answers import outage
from portal.shared.error_pages import error_answer

_CSP = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'"
)


def allow_styles(response: HttpResponseBase, nonce: str) -> None:
    """Let the scripts of this page make style elements that bear the nonce, as CodeMirror and xterm.js do."""
    response.headers["Content-Security-Policy"] = f"{_CSP}; style-src 'self' 'nonce-{nonce}'"


def allow_form_to(response: HttpResponseBase, origin: str) -> None:
    """Let the answer to the form of this page lead there."""
    response.headers["Content-Security-Policy"] = _CSP.replace("form-action 'self'", f"form-action 'self' {origin}")


_COMPRESSED = ("text/html", "application/json", "application/schema+json")
_NO_GZIP = re.compile(r"\bgzip\s*;\s*q=0(\.0*)?\s*(,|$)", re.IGNORECASE)  # Django takes it for a wish


class Compression(GZipMiddleware):
    """The first of those that make an answer, so it has the errors of all others too. It compresses pages and answers
    in JSON, with up to 100 random bytes in each: the length of a compressed page tells of its secrets to whoever can
    put text into it (BREACH). Streams are left alone, as the buffer of a gzip holds back their events; so are files and
    logs, which are streams that a client resumes at a byte of the original."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.streaming or not response.get("Content-Type", "").startswith(_COMPRESSED):
            return response
        if _NO_GZIP.search(request.headers.get("Accept-Encoding", "")):
            request.META["HTTP_ACCEPT_ENCODING"] = ""
        return super().process_response(request, response)


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
    return (values.zone_of(name) if _ZONE.fullmatch(name) else None) or timezone.get_default_timezone()


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
        known = error if isinstance(error, LongshoreError) else outage(error, request.path)
        return None if known is None else error_answer(request, known)
