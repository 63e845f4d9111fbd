"""Who is asking: an API token in ``Authorization: Bearer``, or the session of the pages."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from portal.accounts import tokens
from portal.core.errors import Forbidden, Unauthorized
from portal.models import User


class BearerAuthentication(BaseAuthentication):
    """A header that is there decides alone. A bad token makes a guest, as in v1, so what guests may read goes on."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, token = header.strip().partition(" ")
        user = tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None
        return user or AnonymousUser(), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class PageSession(SessionAuthentication):
    """For scripts of our own pages; REST framework checks the CSRF token."""


def user_or_none(request: HttpRequest | Request) -> User | None:
    user = getattr(request, "user", None)
    return cast(User, user) if user is not None and user.is_authenticated else None


def require_user(request: HttpRequest | Request) -> User:
    """The user, or Unauthorized (401)."""
    user = user_or_none(request)
    if user is None:
        raise Unauthorized
    return user


def require_admin(request: HttpRequest | Request) -> User:
    """The admin, or Unauthorized (401), or Forbidden (403)."""
    user = require_user(request)
    if not user.is_admin:
        raise Forbidden("Non-admin is not allowed to do this operation.")
    return user
