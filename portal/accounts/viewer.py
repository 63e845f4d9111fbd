"""Who looks at a page or asks the API: a user or a guest, and what each of them may do."""

from __future__ import annotations

from typing import Protocol, cast

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware, get_user
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from rest_framework.request import Request

from portal.core.errors import Forbidden, Unauthorized
from portal.models import User

NON_ADMIN = "Non-admin is not allowed to do this operation."


class Viewer(Protocol):
    """A ``portal.models.User`` or a ``Guest``."""

    @property
    def is_authenticated(self) -> bool: ...

    @property
    def username(self) -> str:
        """Empty for a guest."""

    @property
    def is_admin(self) -> bool: ...


class Guest(AnonymousUser):
    """Somebody who has not signed in."""

    is_admin = False


class ViewerMiddleware(AuthenticationMiddleware):
    """Django's, with our Guest in place of its AnonymousUser: ``request.user`` is always a Viewer. The session is read
    when somebody first asks who it is."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = cast(User, SimpleLazyObject(lambda: viewer_in_session(request)))


def viewer_of(request: HttpRequest | Request) -> Viewer:
    """Who sent the request. A guest when it failed before the session was looked at."""
    return cast(Viewer, getattr(request, "user", None) or Guest())


def viewer_in_session(request: HttpRequest) -> Viewer:
    """Reads the session and its user from the database."""
    user = get_user(request)
    return user if isinstance(user, User) else Guest()


def may_read_jobs(viewer: Viewer) -> bool:
    """The job list and virtual clusters, and of each job what everybody may know (LONGSHORE_ANONYMOUS_READ)."""
    return viewer.is_authenticated or settings.ANONYMOUS_READ != "none"


def require_user(viewer: Viewer) -> User:
    """The user, or Unauthorized (401) for a guest."""
    if not viewer.is_authenticated:
        raise Unauthorized
    return cast(User, viewer)


def require_admin(viewer: Viewer, refusal: str = NON_ADMIN) -> User:
    """The admin, or Unauthorized (401), or Forbidden (403) with the sentence ``refusal``."""
    user = require_user(viewer)
    if not user.is_admin:
        raise Forbidden(refusal)
    return user


def require_self_or_admin(viewer: Viewer, username: str, refusal: str = NON_ADMIN) -> User:
    """The user of that name or an admin, or Unauthorized (401), or Forbidden (403) with the sentence ``refusal``."""
    user = require_user(viewer)
    return user if user.username == username else require_admin(user, refusal)
