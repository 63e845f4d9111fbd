"""Serves a Django that does nothing: one view, a constant, no middleware.

``uvicorn benchmarks.portal.bare_django:application`` serves it as the portal's pages are served (portal/asgi.py), so
that it shows what server and machine cost by themselves.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

PATH = "/constant"
_LIMITS: Any = {"PATIENCE": 20, "CONNECTIONS": 4096, "CONNECTIONS_PER_ADDRESS": 256, "TRUSTED_PROXIES": ()}


def constant(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b'{"constant": true}', content_type="application/json")


urlpatterns = [path(PATH[1:], constant)]

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", USE_TZ=True, **_LIMITS)

from portal.web.serving.bridge import Bridge

application: Any = Bridge(get_wsgi_application(), lambda environ: 0)
