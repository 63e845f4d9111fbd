"""Who sent a request, and from where."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.http import HttpRequest, HttpResponseBase
from django.utils.functional import SimpleLazyObject
from rest_framework.request import Request

from base.accounts import audit
from base.accounts.viewer import (
    NON_ADMIN,
    Guest,
    Viewer,
    require,
    require_admin,
    require_reader,
    require_user,
    viewer_in,
)
from base.models import User
from base.roles import Permission
from jobs.notices.services import UNREAD
from portal.shared.error_pages import EXPIRED


class ViewerMiddleware(AuthenticationMiddleware):
    """Django's, with our Guest in place of its AnonymousUser: ``request.user`` is always a Viewer. The session is read
    when somebody first asks who it is, and with the user what the bell of each page says (``unread``)."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = cast(User, SimpleLazyObject(lambda: viewer_in(request.session, f", {UNREAD} AS unread")))
        audit.asked_by(request.META)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code == 403 and EXPIRED not in request.META and request.user.is_authenticated:
            audit.refused(request.user.get_username(), request.path, str(request.method))
        audit.asked_by(None)
        return response


def viewer_of(request: HttpRequest | Request) -> Viewer:
    """Return who sent the request. A guest when it failed before the session was looked at."""
    return cast(Viewer, getattr(request, "user", None) or Guest())


def reader_of(request: HttpRequest | Request) -> Viewer:
    """Who sent the request, or Unauthorized (401) for those who may read no job."""
    require_reader(viewer_of(request))
    return viewer_of(request)


def user_of(request: HttpRequest | Request) -> User:
    """The user who sent the request, or Unauthorized (401)."""
    return require_user(viewer_of(request))


def admin_of(request: HttpRequest | Request, refusal: str = NON_ADMIN) -> User:
    """The admin who sent the request, or Unauthorized (401), or Forbidden (403) with the sentence ``refusal``."""
    return require_admin(viewer_of(request), refusal)


def all_reader_of(request: HttpRequest | Request) -> User:
    """Who sent the request and reads what admins read, or Unauthorized (401), or Forbidden (403)."""
    return require(viewer_of(request), Permission.READ_ALL)


def ip_of(request: HttpRequest | Request) -> str | None:
    """The address of the client; None when it is not known."""
    return request.META.get("REMOTE_ADDR") or None
