"""How REST framework learns who sent a request: by an API token in ``Authorization: Bearer``, or by the session of the
pages."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from base.accounts import audit, tokens
from base.accounts.viewer import Guest
from base.models import User
from portal.shared.viewer import ip_of

INVALID = "longshore.invalid_token"  # in the META of a request: it showed a token that is not valid
SAYS_INVALID = 'Bearer error="invalid_token"'  # WWW-Authenticate of its answer


class BearerAuthentication(BaseAuthentication):
    """If the header is there, the session is not looked at. A bad token makes a guest, as in v1: the client can still
    read what guests may read, and is told by a header that it does so as one."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        if "HTTP_AUTHORIZATION" not in request.META:
            return None
        if (user := sender_of(request)) is not None:
            request.META[audit.WAY] = tokens.way_of(user)
        return user or Guest(), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def sender_of(request: HttpRequest | Request) -> User | None:
    """Who sent the token of this request; None for nobody."""
    header = request.META.get("HTTP_AUTHORIZATION", "")
    user = user_by(header, ip_of(request))
    note_invalid(request.META, header, user)
    return user


def note_invalid(meta: dict[str, Any], header: str, found: object | None) -> None:
    """Note in the META of a request with this ``Authorization`` that its token is of nobody, if nobody was found."""
    if found is None and header[:7].lower() == "bearer ":
        meta[INVALID] = True


def user_by(header: str, address: str | None) -> User | None:
    """Who sent this ``Authorization``, and from where; None for nobody."""
    return tokens.user_of(token_in(header), address)


def token_in(header: str) -> str:
    """The token of an ``Authorization``; empty for one of another kind."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class PageSession(SessionAuthentication):
    """Serves scripts of our own pages; REST framework checks the CSRF token."""
