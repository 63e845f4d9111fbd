"""``page``: what base.html needs on every page, from at most one small query."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from portal import health


def page(request: HttpRequest) -> dict[str, Any]:
    """{"page": {"version", "open" (guests may read jobs), "theme": "light"|"dark"|"", "is_admin",
    "health": {"scheduler": bool, "workers": bool, "store": bool}}}"""
    theme = request.COOKIES.get("theme", "")
    return {
        "page": {
            "version": settings.VERSION,
            "open": settings.ANONYMOUS_READ != "none",
            "theme": theme if theme in ("light", "dark") else "",
            "is_admin": bool(getattr(getattr(request, "user", None), "is_admin", False)),
            "health": {**health.up(), "store": health.is_store_up() is not False},
        }
    }
