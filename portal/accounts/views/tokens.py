"""The page of one's own API tokens. A new token is shown once, in the answer to its form."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from portal.accounts import services
from portal.accounts.auth import require_user
from portal.core.errors import LongshoreError, NotFound
from portal.models import ApiToken
from portal.web.confirm import ask

DAYS = (7, 30, 90, 365)
_DEFAULT_DAYS = 30
_MOST_SHOWN = 200


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """POST makes one. Fields: name, days."""
    if request.method != "POST":
        return _page(request)
    name, days = request.POST.get("name", ""), request.POST.get("days", "")
    try:
        number = int(days) if days.isascii() and days.isdigit() and len(days) < 6 else 0
        token = services.create_token(require_user(request), name, number, request)
    except LongshoreError as error:
        return _page(request, error=error.message, name=name, chosen=days, code=error.status)
    return _page(request, token=token, made=name.strip())


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    user = require_user(request)
    if request.method == "POST":
        if services.revoke_token(user, token_id, request):
            messages.success(request, "The token was revoked. Whoever uses it is refused from now on.")
        else:
            messages.success(request, "The token had ended already.")
        return redirect("/account/tokens")
    token = next((one for one in services.list_tokens(user) if one.pk == token_id), None)
    if token is None:
        raise NotFound("You have no such token.")
    return ask(
        request,
        "/account/tokens",
        nav="account",
        title=f"Revoke {_called(token)}?",
        effect="Every script and client that uses it is refused at once. Your jobs go on.",
        verb="Revoke",
        verb_icon="trash",
        keep="Keep it",
    )


def _page(request: HttpRequest, *, chosen: str = str(_DEFAULT_DAYS), code: int = 200, **more: Any) -> HttpResponse:
    """Tokens with a name come first: the others come from clients that sign in, and end by themselves."""
    found = sorted(services.list_tokens(require_user(request)), key=lambda token: not token.name)
    page = {
        "nav": "account",
        "tokens": found[:_MOST_SHOWN],
        "hidden": len(found[_MOST_SHOWN:]),
        "days": DAYS,
        "chosen": chosen,
        **more,
    }
    return render(request, "portal/tokens.html", page, status=code)


def _called(token: ApiToken) -> str:
    return token.name or "the token of a client that signed in"
