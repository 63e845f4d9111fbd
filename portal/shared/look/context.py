"""The template variable ``page``, which base.html needs on every page, from at most one small query; and the choice
of colours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from base.accounts.viewer import reads_all
from base.core import words
from base.files.store.state import is_store_up
from base.wakes import processes
from portal.shared.confirm import leads_here
from portal.shared.viewer import viewer_of

_YEAR = 365 * 86400


def page(request: HttpRequest) -> dict[str, Any]:
    """{"page": {"version", "open" (guests may read jobs), "theme": "light"|"dark"|"", "is_admin", "reads_all",
    "role", "unread": notices not read, "zone": "Asia/Tokyo (UTC+9)", "offset": minutes east of UTC now,
    "health": {"scheduler": bool, "workers": bool, "sampler": bool, "store": bool}}}"""
    now, name = timezone.localtime(), timezone.get_current_timezone_name()
    theme = request.COOKIES.get("theme", "")
    return {
        "page": {
            "version": settings.VERSION,
            "open": settings.ANONYMOUS_READ != "none",
            "theme": theme if theme in ("light", "dark") else "",
            "is_admin": viewer_of(request).is_admin,
            "reads_all": reads_all(viewer_of(request)),
            "role": viewer_of(request).role,
            "unread": getattr(viewer_of(request), "unread", 0),
            "zone": name if name == words.zone(now) else f"{name} ({words.zone(now)})",
            "offset": int((now.utcoffset() or timedelta(0)).total_seconds() // 60),
            "health": {**processes.live_processes(), "store": is_store_up() is not False},
        }
    }


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    """Stores the choice of colours in a cookie, so that the server draws the page in them and nothing flashes. Fields:
    theme (light, dark or auto = as the system), next."""
    target = request.POST.get("next", "")
    response = redirect(target if leads_here(request, target) else "/")
    choice = request.POST.get("theme")
    if choice in ("light", "dark"):
        response.set_cookie("theme", choice, max_age=_YEAR, samesite="Lax", secure=request.is_secure(), httponly=True)
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response
