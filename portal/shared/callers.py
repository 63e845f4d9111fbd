"""Who opens a WebSocket, and whether they still may be who they are while it is open.

Three ways to say it: a ticket in the query (base.accounts.callers), a bearer token in ``Authorization``, the session
cookie of the pages. A browser sends the cookie also for a page of another site, so then the Origin has to be ours.
All here reads the database: call it in a thread.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

from base.accounts import tokens
from base.accounts.callers import Caller, take_ticket, user_by
from base.core.errors import Forbidden, Unauthorized


def caller_of(request: HttpRequest) -> Caller:
    """Raises Unauthorized for nobody, Forbidden for a page of another site."""
    credential = _credential_of(request)
    user = user_by(credential)
    if user is None:
        raise Unauthorized
    return Caller(user, credential)


def credential_of(request: HttpRequest) -> str:
    """What the sender of an ordinary request showed; empty for nobody."""
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return f"token:{tokens.hash_of(token.strip())}"
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    return f"session:{key}" if key else ""


def _credential_of(request: HttpRequest) -> str:
    if ticket := request.GET.get("ticket"):
        return take_ticket(ticket, request.path)
    credential = credential_of(request)
    if credential.startswith("session:") and not _is_our_page(request):
        raise Forbidden("This address is for the portal's own pages, or for who shows a token or a ticket.")
    return credential


def _is_our_page(request: HttpRequest) -> bool:
    """Whether a page of the portal itself sent it: of the host that the request is for, or of the public address."""
    own = f"{'https' if request.is_secure() else 'http'}://{request.get_host()}"
    return _place(request.headers.get("Origin", "")) in {_place(each) for each in (own, *settings.CSRF_TRUSTED_ORIGINS)}


def _place(origin: str) -> tuple[object, ...] | None:
    """Its scheme, host and port, also where the scheme implies the port. None for what is no origin."""
    try:
        parts = urlsplit(origin)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return parts.scheme, parts.hostname, port
