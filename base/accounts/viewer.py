"""Who looks at a page or asks the API: a user or a guest, and what each of them may do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Protocol, cast

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser

from base.core.errors import Forbidden, Unauthorized
from base.models import User

NON_ADMIN = "Non-admin is not allowed to do this operation."


class Viewer(Protocol):
    """A ``base.models.User`` or a ``Guest``."""

    @property
    def is_authenticated(self) -> bool: ...

    @property
    def username(self) -> str:
        """Empty for a guest."""

    @property
    def is_admin(self) -> bool: ...

    @property
    def scopes(self) -> frozenset[str] | None:
        """Of the token by which they came (base.accounts.scopes); None: all."""


class Guest(AnonymousUser):
    """Somebody who has not signed in."""

    is_admin = False
    scopes = None


def viewer_in(session: Any) -> Viewer:
    """Reads the session and its user from the database."""
    asks: Any = SimpleNamespace(session=session)  # all that Django reads of a request here
    user = get_user(asks)
    return user if isinstance(user, User) else Guest()


def may_read_jobs(viewer: Viewer) -> bool:
    """The job list and virtual clusters, and of each job what everybody may know (LONGSHORE_ANONYMOUS_READ)."""
    return viewer.is_authenticated or settings.ANONYMOUS_READ != "none"


def require_reader(viewer: Viewer) -> None:
    """Raise Unauthorized (401) unless the viewer may read jobs."""
    if not may_read_jobs(viewer):
        raise Unauthorized


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
