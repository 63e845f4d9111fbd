"""Guards of pages: guests who may not open a page are sent to sign in, and come back to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import quote

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect

from portal.accounts.viewer import may_read_jobs, viewer_of
from portal.core.errors import Unauthorized

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def reader(view: View[P]) -> View[P]:
    """For pages whose rule is ``viewer.may_read_jobs``."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not may_read_jobs(viewer_of(request)):
            return sign_in(request)
        try:
            return view(request, *args, **kwargs)
        except Unauthorized:  # a part of it needs a login
            return sign_in(request)

    return guarded


def signed_in(view: View[P]) -> View[P]:
    """For pages that change something."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        return view(request, *args, **kwargs) if request.user.is_authenticated else sign_in(request)

    return guarded


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Redirect to the login. After a POST they come back to the page with the form, whose fields are gone."""
    target = request.get_full_path() if request.method == "GET" else request.headers.get("Referer", "/")
    return redirect(f"/login?next={quote(target)}")
