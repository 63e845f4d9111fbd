"""Signs people in by a provider: sends the browser there, and lets them in when it comes back.

What was begun is in a cookie that only this portal can read, so guests who begin and go away leave no row.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.contrib import auth, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from base.accounts import audit
from base.accounts.providers import oidc
from base.accounts.providers.config import Provider
from base.accounts.providers.said import Said
from base.core import sealed
from base.core.errors import BadRequest, LongshoreError, NotFound, NotLetIn
from clusters.users import entry
from portal.shared.confirm import leads_here
from portal.shared.viewer import user_of, viewer_of
from portal.sign_in.views import HOURS, LAST, SIGN_OUT, login_page

MINUTES = 10  # for which a sign-in may take at the provider
_COOKIE = f"{'__Host-' if settings.IS_HTTPS else ''}signing-in"
_LONGEST = 2000  # characters of an address to come back to: a browser keeps no larger cookie
_BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@require_safe
def begin_sign_in(request: HttpRequest, name: str) -> HttpResponse:
    """?next= is where to go on, ?link= a text of ``link_text``: then the user who is signed in is linked."""
    provider = _provider(name)
    target, begun = request.GET.get("next", "/"), oidc.Begun.now()
    target = target if leads_here(request, target) and len(target) <= _LONGEST else "/"
    try:
        user_id = _link_of(request) if "link" in request.GET else 0
        response = redirect(oidc.address(provider, begun, _back(provider)))
    except LongshoreError as error:
        return login_page(request, target, error)
    kept = {"provider": name, "next": target, "link": user_id, **asdict(begun)}
    _keep(response, _COOKIE, sealed.seal(json.dumps(kept), "sign-in"), MINUTES * 60)
    return response


@never_cache
@require_safe
def end_sign_in(request: HttpRequest, name: str) -> HttpResponse:
    """Where the provider sends the browser. What was begun is over with this, whatever comes of it."""
    provider = _provider(name)
    target = "/"
    try:
        kept = _begun(request, name)
        target = kept["next"]
        begun = oidc.Begun(kept["state"], kept["nonce"], kept["verifier"])
        said = oidc.finish(provider, begun, _back(provider), f"{settings.PUBLIC_URL}/login", request.GET.dict())
        response = _link(request, kept["link"], said) if kept["link"] else _enter(request, said, target)
    except LongshoreError as error:
        response = login_page(request, target, error)
    response.delete_cookie(_COOKIE, samesite="Lax")
    return response


def link_text(request: HttpRequest) -> str:
    """Proof that the page of their account has sent them: a link elsewhere cannot make somebody link what is another's
    to their account."""
    return sealed.seal(str(user_of(request).pk), _purpose(request))


def _purpose(request: HttpRequest) -> str:
    return f"link of {request.session.session_key}"


def _link_of(request: HttpRequest) -> int:
    try:
        return int(sealed.unseal(request.GET["link"], _purpose(request), 3600))
    except BadRequest:
        raise NotLetIn("This link is too old, or not of your account. Begin on the page of your account.") from None


def _provider(name: str) -> Provider:
    provider = settings.SIGN_IN.get(name)
    if not isinstance(provider, Provider):
        raise NotFound("There is no such way to sign in.")
    return provider


def _back(provider: Provider) -> str:
    return f"{settings.PUBLIC_URL}/sign-in/{provider.name}/back"


def _begun(request: HttpRequest, name: str) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(sealed.unseal(request.COOKIES.get(_COOKIE, ""), "sign-in", MINUTES * 60))
    except BadRequest:
        kept = {}
    if kept.get("provider") != name:
        says = f"No sign-in was begun in this browser in the last {MINUTES} minutes."
        raise NotLetIn(f"{says} Begin at {settings.PUBLIC_URL}/login.")
    return kept


def _enter(request: HttpRequest, said: Said, target: str) -> HttpResponse:
    user = entry.enter(said)
    auth.login(request, user, _BACKEND)
    request.session.set_expiry(HOURS * 3600)
    request.session[SIGN_OUT] = {"title": said.title, "address": said.sign_out} if said.sign_out else None
    audit.record(user.username, "login", data={"provider": said.provider})
    response = redirect(target)
    _keep(response, LAST, said.provider, 365 * 86400)
    return response


def _link(request: HttpRequest, user_id: int, said: Said) -> HttpResponse:
    viewer = viewer_of(request)
    if not viewer.is_authenticated or user_of(request).pk != user_id:
        raise NotLetIn("You have signed out meanwhile, so nothing was linked. Sign in and begin again.")
    entry.link(user_of(request), said)
    messages.success(request, f"From now on you also sign in by {said.title}.")
    return redirect("/account")


def _keep(response: HttpResponse, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name, value, max_age=seconds, secure=settings.IS_HTTPS, httponly=True, samesite="Lax"
    )  # Lax: a provider sends the browser back
