"""Signs people in and out in a browser."""

from __future__ import annotations

from django.contrib import auth
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from base.accounts import audit
from base.core.errors import IncorrectPassword, LongshoreError, NoUser
from portal.shared.confirm import leads_here
from portal.sign_in import passwords

_REMEMBER_SECONDS = 7 * 86400


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """Context: ``next``, ``username``, ``error`` (a sentence or empty). Fields: username, password, remember, next."""
    target = request.POST.get("next") or request.GET.get("next") or "/"
    target = target if leads_here(request, target) else "/"
    page = {"next": target, "username": request.POST.get("username", ""), "error": ""}
    if request.method == "GET":
        return redirect(target) if request.user.is_authenticated else render(request, "sign_in/login.html", page)
    try:
        user = passwords.check_password(request, page["username"], request.POST.get("password", ""))
    except (NoUser, IncorrectPassword):
        page["error"] = "User name or password is wrong."
        return render(request, "sign_in/login.html", page, status=400)
    except LongshoreError as error:
        page["error"] = error.message
        return render(request, "sign_in/login.html", page, status=error.status)
    auth.login(request, user)
    request.session.set_expiry(_REMEMBER_SECONDS if request.POST.get("remember") else 0)
    audit.record(user.username, "login")
    return redirect(target)


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        audit.record(request.user.get_username(), "logout")
    auth.logout(request)
    return redirect("/login")
