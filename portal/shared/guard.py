"""Guards of pages: guests who may not open a page are sent to sign in, and come back to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import quote

from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from base.accounts.viewer import may_read_jobs, require_change
from base.core.errors import LongshoreError, Unauthorized
from portal.shared.api.answers import error_body
from portal.shared.viewer import viewer_of

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]
_OWN = ("/account", "/notices")  # what auditors change too
_LONGEST = 8_000  # characters of an address to come back to; Django redirects to none beyond 16,384


def reader(view: View[P]) -> View[P]:
    """Guards a page that those may read who ``viewer.may_read_jobs``."""
    return _guarded(view, lambda request: may_read_jobs(viewer_of(request)))


def signed_in(view: View[P]) -> View[P]:
    """Guards a page that changes something."""
    return _guarded(view, lambda request: request.user.is_authenticated)


def _guarded(view: View[P], may: Callable[[HttpRequest], bool]) -> View[P]:
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            if not may(request):
                return sign_in(request)
            if request.method == "POST" and not request.path.startswith(_OWN):
                require_change(viewer_of(request))
            return view(request, *args, **kwargs)
        except Unauthorized:  # a part of it needs a login
            return sign_in(request)

    return guarded


def reading(view: View[P]) -> View[P]:
    """A page that is only looked at, for ``reader``."""
    return require_safe(reader(view))


def own_page(view: View[P]) -> View[P]:
    """A page that is only looked at, for who is signed in."""
    return require_safe(signed_in(view))


def fresh_reading(view: View[P]) -> View[P]:
    """As ``reading``, and no cache keeps it."""
    return never_cache(reading(view))


def fresh_page(view: View[P]) -> View[P]:
    """As ``own_page``, and no cache keeps it."""
    return never_cache(own_page(view))


def own_form(view: View[P]) -> View[P]:
    """A page of who is signed in that shows a form, or asks, and does it by POST. No cache keeps it."""
    return never_cache(signed_in(require_http_methods(["GET", "HEAD", "POST"])(view)))


def own_post(view: View[P]) -> View[P]:
    """What who is signed in does by POST alone."""
    return never_cache(signed_in(require_POST(view)))


def for_scripts(view: View[P]) -> View[P]:
    """What a script asks for: an error is JSON with its sentence, which the script shows."""

    @wraps(view)
    def answered(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except LongshoreError as error:
            return JsonResponse(error_body(error), status=error.status, headers=error.headers)

    return answered


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Redirect to the login. After a POST they come back to the page with the form, whose fields are gone."""
    target = request.get_full_path() if request.method != "POST" else request.headers.get("Referer", "/")
    back = quote(target)
    return redirect(f"/login?next={back}" if len(back) <= _LONGEST else "/login")
