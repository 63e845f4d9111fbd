"""The scope that each route of the API needs (base.accounts.scopes): one table, by which requests are checked and which
the API's document shows. The first line that fits decides; a route that nobody thought of is for ``admin:*``, unless it
only reads."""

from __future__ import annotations

import re
from functools import cache

from django.http import HttpRequest
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from base.accounts.scopes import Scope
from base.accounts.viewer import require_scope
from portal.shared.viewer import viewer_of

# Of a route its methods (empty: all) and its path below /api/v1 and its like, with * for each name in it. A job below
# its user's address is the same as below /jobs.
_LINES = (
    ("", r"hosts|metrics|cluster/what-if|cluster/replay(/\*)?", Scope.ADMIN),
    ("", r"jobs/stop|(jobs|sweeps)/\*/executionType", Scope.JOBS_STOP),
    ("DELETE", r"jobs?/\*", Scope.JOBS_STOP),
    ("", r"jobs/\*/ssh", Scope.JOBS_SUBMIT),
    ("", r"(service-accounts|sign-in)(/.*)?", Scope.ADMIN),
    ("", r"notices(/.*)?", Scope.ACCOUNT),
    ("GET HEAD", r"(user|group|audit)(/.*)?", Scope.ACCOUNT),
    ("PUT", r"user/\*/(password|email|extension|githubPAT)", Scope.ACCOUNT),
    ("GET HEAD", r".*", Scope.JOBS_READ),
    ("", r"(jobs?|sweeps)(/.*)?", Scope.JOBS_SUBMIT),
    ("", r".*", Scope.ADMIN),
)
_LINES_READ = tuple((frozenset(methods.split()), re.compile(path), scope) for methods, path, scope in _LINES)
_BELOW = re.compile(r"^/?(?:rest-server/)?(?:api/)?(?:v\d/)?")
_NAME = re.compile(r"<[^>]*>|\{[^}]*\}")  # as Django and as the document write it


@cache
def scope_of(route: str, method: str) -> Scope:
    """``route``: of Django, or a path of the API's document."""
    path = _NAME.sub("*", _BELOW.sub("", route))
    path = path.removeprefix("user/*/") if path.startswith("user/*/jobs") else path
    return next(s for methods, fits, s in _LINES_READ if (not methods or method in methods) and fits.fullmatch(path))


def needed(request: HttpRequest | Request) -> Scope | None:
    """The scope that a token needs for this request; None before its route is known."""
    match = request.resolver_match
    return scope_of(match.route, str(request.method)) if match else None


class HasScope(BasePermission):
    """Asked of each view, before it looks at anything."""

    def has_permission(self, request: Request, view: object) -> bool:
        if scope := needed(request):
            require_scope(viewer_of(request), scope, reads=request.method in SAFE_METHODS)
        return True
