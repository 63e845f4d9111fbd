"""Who is asking: an API token in ``Authorization: Bearer``, or the session of the pages."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from portal.accounts import tokens, viewer
from portal.accounts.viewer import Guest, viewer_of
from portal.models import User


class BearerAuthentication(BaseAuthentication):
    """If the header is there, the session is not looked at. A bad token makes a guest, as in v1: the client can still
    read what guests may read."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, token = header.strip().partition(" ")
        user = tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None
        return user or Guest(), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class PageSession(SessionAuthentication):
    """For scripts of our own pages; REST framework checks the CSRF token."""


def require_user(request: HttpRequest | Request) -> User:
    """The user who sent the request, or Unauthorized (401)."""
    return viewer.require_user(viewer_of(request))


def require_admin(request: HttpRequest | Request, refusal: str = viewer.NON_ADMIN) -> User:
    """The admin who sent the request, or Unauthorized (401), or Forbidden (403) with the sentence ``refusal``."""
    return viewer.require_admin(viewer_of(request), refusal)
