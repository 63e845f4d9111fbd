"""Signs people in and out in a browser."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from base.accounts import audit
from base.accounts.providers.state import fails
from base.accounts.viewer import Guest
from base.core.errors import BadRequest, IncorrectPassword, LongshoreError, NoUser
from base.models import User
from portal.shared.confirm import leads_here
from portal.sign_in import passwords
from portal.sign_in.passwords import LOCAL

LAST = "last-sign-in"  # a cookie: the provider by which somebody last signed in there
SIGN_OUT = "sign-out"  # in a session: the provider that somebody may sign out of too, and at which address
HOURS = 12  # after which who came by a provider signs in again, so that what their groups give is no older
_REMEMBER_SECONDS = 7 * 86400


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """Fields: username, password, source (a directory, or local), remember, next."""
    target = request.POST.get("next") or request.GET.get("next") or "/"
    target = target if leads_here(request, target) else "/"
    if request.method == "GET":
        return redirect(target) if request.user.is_authenticated else login_page(request, target)
    try:
        name, password, source = (request.POST.get(field, "") for field in ("username", "password", "source"))
        user = passwords.check_password(request, name, password, source)
    except (NoUser, IncorrectPassword):
        return login_page(request, target, BadRequest("User name or password is wrong."))
    except LongshoreError as error:
        return login_page(request, target, error)
    auth.login(request, user)
    longest = HOURS * 3600 if is_directory(user) else _REMEMBER_SECONDS
    request.session.set_expiry(longest if request.POST.get("remember") else 0)
    audit.record(user.username, "login", data={"provider": source} if is_directory(user) else None)
    return redirect(target)


def is_directory(user: AbstractBaseUser) -> bool:
    """Whether a directory has just let them in."""
    return str(getattr(user, "backend", "")).endswith("DirectoryBackend")


def login_page(
    request: HttpRequest, target: str, error: LongshoreError | None = None, sign_out: dict[str, str] | None = None
) -> HttpResponse:
    """Context: ``next``, ``username``, ``error`` (a sentence or empty), ``ways`` and ``directories``: each provider of
    a kind with why it fails, ``source``: the chosen one, ``last``: the provider of the last time in this browser,
    ``sign_out``: title and address of one that somebody who signed out here may still be signed in at."""
    known = [(each, fails(each)) for each in settings.SIGN_IN.values()]
    directories = [way for way in known if way[0].kind == "LDAP"]
    asked = (request.POST or request.GET).get("source", "")
    page = {
        "next": target,
        "username": request.POST.get("username", ""),
        "error": error.message if error else "",
        "ways": [way for way in known if way not in directories],
        "directories": directories,
        "sign_out": sign_out,
        "source": asked or (directories[0][0].name if directories else LOCAL),
        "last": settings.SIGN_IN.get(request.COOKIES.get(LAST, "")),
    }
    return render(request, "sign_in/login.html", page, status=error.status if error else 200)


@never_cache
@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """A page with a link to the provider of the session, if it can sign people out: no form may lead elsewhere."""
    if request.user.is_authenticated:
        audit.record(request.user.get_username(), "logout")
    sign_out = request.session.get(SIGN_OUT)
    auth.logout(request)
    request.user = cast(User, Guest())  # Django's own has no role, which a page asks for
    return login_page(request, "/", sign_out=sign_out) if sign_out else redirect("/login")
