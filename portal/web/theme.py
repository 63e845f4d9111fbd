"""Stores the choice of colours in a cookie, so that the server draws the page in them and nothing flashes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

_YEAR = 365 * 86400


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Fields: theme (light, dark or auto = as the system), next."""
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure()):
        target = "/"
    response = redirect(target)
    choice = request.POST.get("theme")
    if choice in ("light", "dark"):
        response.set_cookie("theme", choice, max_age=_YEAR, samesite="Lax", secure=request.is_secure(), httponly=True)
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response
