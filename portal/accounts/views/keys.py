"""The page of one's own public SSH keys."""

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
from portal.models import UserKey
from portal.web.confirm import ask


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def keys(request: HttpRequest) -> HttpResponse:
    """POST adds one. Field: key."""
    if request.method != "POST":
        return _page(request)
    text = request.POST.get("key", "")
    try:
        key = services.add_key(require_user(request), text, request)
    except LongshoreError as error:
        return _page(request, error=error.message, text=text[:5000], code=error.status)
    messages.success(request, f"The key {key.name or key.fingerprint} goes into every container you start from now on.")
    return redirect("/account/keys")


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, key_id: int) -> HttpResponse:
    user = require_user(request)
    if request.method == "POST":
        services.remove_key(user, key_id, request)
        messages.success(request, "The key is removed. Containers that run keep it until they end.")
        return redirect("/account/keys")
    key = UserKey.objects.filter(user=user, pk=key_id).first()
    if key is None:
        raise NotFound("You have no such key.")
    return ask(
        request,
        "/account/keys",
        nav="account",
        title=f"Remove {key.name or key.fingerprint}?",
        effect="Containers you start from now on do not let it in. Those that run keep it until they end.",
        verb="Remove",
        verb_icon="trash",
        keep="Keep it",
    )


def _page(request: HttpRequest, *, code: int = 200, **more: Any) -> HttpResponse:
    found = UserKey.objects.filter(user=require_user(request)).order_by("id")
    return render(request, "portal/keys.html", {"nav": "account", "keys": found, **more}, status=code)
