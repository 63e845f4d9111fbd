"""Who looks at a page or asks the API: a user or a guest, and what each of them may do."""

from __future__ import annotations

from typing import Any, Protocol, cast

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import AnonymousUser
from django.utils.crypto import constant_time_compare

from base.accounts.scopes import Scope
from base.core.bulk import first_row
from base.core.errors import Forbidden, Unauthorized
from base.core.signals import manages
from base.models import User
from base.roles import OF_AUDITORS, Permission, Role

NON_ADMIN = "Non-admin is not allowed to do this operation."
AUDITS = "An auditor reads, and changes nothing but the own account."


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
    def role(self) -> Role: ...

    @property
    def scopes(self) -> frozenset[str] | None:
        """Of the token by which they came (base.accounts.scopes); None: all."""


class Guest(AnonymousUser):
    """Somebody who has not signed in."""

    is_admin = False
    role = Role.USER  # of which a guest has no right (``may``)
    scopes = None


def viewer_in(session: Any, more: str = "") -> Viewer:
    """Reads the session and its user from the database, as Django's ``get_user`` does. ``more``: columns of SQL that
    are read with the user's row ``u``, and become attributes."""
    known, backend = session.get(SESSION_KEY), session.get(BACKEND_SESSION_KEY)
    if known is None or backend not in settings.AUTHENTICATION_BACKENDS:
        return Guest()
    user = first_row(User, f"SELECT u.*{more} FROM portal_user u WHERE u.id = %s AND u.is_active", int(known))  # noqa: S608
    if user is None:
        return Guest()
    if not constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        session.flush()  # it is of a password, or an epoch, before
        return Guest()
    return user


def may(viewer: Viewer, action: Permission, *, owner: str = "", vc: str = "") -> bool:
    """Whether the table of base.roles lets the viewer do it. ``owner``: the user whose thing it is about;
    ``vc``: its virtual cluster."""
    if not viewer.is_authenticated or (viewer.role == Role.AUDITOR and action not in OF_AUDITORS):
        return False
    roles = action.value.roles
    if viewer.role in roles or (Role.OWNER in roles and owner == viewer.username):
        return True
    return bool(vc) and Role.MANAGER in roles and is_whole(viewer) and manages(viewer.username, vc)


def is_whole(viewer: Viewer) -> bool:
    """Whether more counts than that they are a user: not for a token without ``admin:*``."""
    return viewer.scopes is None or Scope.ADMIN in viewer.scopes


def require(viewer: Viewer, action: Permission, refusal: str = NON_ADMIN, *, owner: str = "", vc: str = "") -> User:
    """The user, or Unauthorized (401), or Forbidden (403) with the sentence ``refusal``, where they may not."""
    user = require_user(viewer)
    if not may(viewer, action, owner=owner, vc=vc):
        raise Forbidden(refusal)
    return user


def require_scope(viewer: Viewer, scope: Scope, *, reads: bool = True) -> None:
    """Raise Forbidden (403) for who came by a token without the scope, and for an auditor who would change more than
    their account."""
    if viewer.scopes is not None and scope not in viewer.scopes:
        raise Forbidden(f"This token lacks the scope {scope}. Make one that has it, on the page API tokens.")
    if not reads and scope != Scope.ACCOUNT:
        require_change(viewer)


def require_change(viewer: Viewer) -> None:
    """Raise Forbidden (403) for an auditor. Asked at every door, for what changes more than the own account."""
    if viewer.role == Role.AUDITOR:
        raise Forbidden(AUDITS)


def reads_all(viewer: Viewer) -> bool:
    """Whether the viewer reads what admins read."""
    return may(viewer, Permission.READ_ALL)


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
    return require(viewer, Permission.ADMINISTER, refusal)


def require_self_or_admin(viewer: Viewer, username: str, refusal: str = NON_ADMIN) -> User:
    """The user of that name or an admin, or Unauthorized (401), or Forbidden (403) with the sentence ``refusal``."""
    return require(viewer, Permission.CHANGE_ACCOUNT, refusal, owner=username)
