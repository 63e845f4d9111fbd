"""Signs people in and out in a browser."""

from __future__ import annotations

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from base.accounts import audit
from base.accounts.providers import oidc
from base.core.errors import BadRequest, IncorrectPassword, LongshoreError, NoUser
from portal.shared.confirm import leads_here
from portal.sign_in import passwords

LAST = "last-sign-in"  # a cookie: the provider by which somebody last signed in there
_REMEMBER_SECONDS = 7 * 86400


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """Fields: username, password, remember, next."""
    target = request.POST.get("next") or request.GET.get("next") or "/"
    target = target if leads_here(request, target) else "/"
    if request.method == "GET":
        return redirect(target) if request.user.is_authenticated else login_page(request, target)
    try:
        user = passwords.check_password(request, request.POST.get("username", ""), request.POST.get("password", ""))
    except (NoUser, IncorrectPassword):
        return login_page(request, target, BadRequest("User name or password is wrong."))
    except LongshoreError as error:
        return login_page(request, target, error)
    auth.login(request, user)
    request.session.set_expiry(_REMEMBER_SECONDS if request.POST.get("remember") else 0)
    audit.record(user.username, "login")
    return redirect(target)


def login_page(request: HttpRequest, target: str, error: LongshoreError | None = None) -> HttpResponse:
    """Context: ``next``, ``username``, ``error`` (a sentence or empty), ``ways``: each provider with why it fails,
    ``last``: the one of the last time in this browser."""
    page = {
        "next": target,
        "username": request.POST.get("username", ""),
        "error": error.message if error else "",
        "ways": [(provider, oidc.fails(provider)) for provider in settings.SIGN_IN.values()],
        "last": settings.SIGN_IN.get(request.COOKIES.get(LAST, "")),
    }
    return render(request, "sign_in/login.html", page, status=error.status if error else 200)


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        audit.record(request.user.get_username(), "logout")
    auth.logout(request)
    return redirect("/login")
