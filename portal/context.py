"""The template variable ``page``: what base.html needs on every page, from at most one small query."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from portal.accounts.viewer import viewer_of
from portal.core import words
from portal.files.store import state as store_state
from portal.wakes import beats


def page(request: HttpRequest) -> dict[str, Any]:
    """{"page": {"version", "open" (guests may read jobs), "theme": "light"|"dark"|"", "is_admin",
    "zone": "Asia/Tokyo (UTC+9)", "offset": minutes east of UTC now,
    "health": {"scheduler": bool, "workers": bool, "sampler": bool, "store": bool}}}"""
    now, name = timezone.localtime(), timezone.get_current_timezone_name()
    theme = request.COOKIES.get("theme", "")
    return {
        "page": {
            "version": settings.VERSION,
            "open": settings.ANONYMOUS_READ != "none",
            "theme": theme if theme in ("light", "dark") else "",
            "is_admin": viewer_of(request).is_admin,
            "zone": name if name == words.zone(now) else f"{name} ({words.zone(now)})",
            "offset": int((now.utcoffset() or timedelta(0)).total_seconds() // 60),
            "health": {**beats.up(), "store": store_state.is_up() is not False},
        }
    }
