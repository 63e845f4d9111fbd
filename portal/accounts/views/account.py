"""Sign in, sign out, and the account page."""

from __future__ import annotations

from django.contrib import auth, messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts import audit, services
from portal.accounts.auth import require_user
from portal.core.errors import BadRequest, IncorrectPassword, LongshoreError, NoUser

_REMEMBER_SECONDS = 7 * 86400


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """Context: ``next``, ``username``, ``error`` (a sentence or empty). Fields: username, password, remember, next."""
    target = _safe(request, request.POST.get("next") or request.GET.get("next") or "/")
    page = {"next": target, "username": request.POST.get("username", ""), "error": ""}
    if request.method == "GET":
        return redirect(target) if request.user.is_authenticated else render(request, "registration/login.html", page)
    try:
        user = services.check_password(request, page["username"], request.POST.get("password", ""))
    except (NoUser, IncorrectPassword):
        page["error"] = "User name or password is wrong."
        return render(request, "registration/login.html", page, status=400)
    except LongshoreError as error:
        page["error"] = error.message
        return render(request, "registration/login.html", page, status=error.status)
    auth.login(request, user)
    request.session.set_expiry(_REMEMBER_SECONDS if request.POST.get("remember") else 0)
    audit.record(user.username, "login", ip=audit.ip_of(request))
    return redirect(target)


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        audit.record(request.user.get_username(), "logout", ip=audit.ip_of(request))
    auth.logout(request)
    return redirect("/login")


@never_cache
@login_required
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Context: ``error``. Fields: old_password, new_password, again. Says what changing the password ends."""
    if request.method == "GET":
        return render(request, "portal/account.html", {"error": ""})
    try:
        _change_password(request)
    except LongshoreError as error:
        return render(request, "portal/account.html", {"error": error.message}, status=error.status)
    messages.success(request, "Your password is changed. Your API tokens and your other sessions are ended.")
    return redirect("/account")


def _safe(request: HttpRequest, target: str) -> str:
    return target if url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure()) else "/"


def _change_password(request: HttpRequest) -> None:
    user = require_user(request)
    new = request.POST.get("new_password", "")
    if new != request.POST.get("again", ""):
        raise BadRequest("The two new passwords differ.")
    services.change_password(request, user, request.POST.get("old_password", ""), new)
    auth.update_session_auth_hash(request, user)
