"""Serves a Django that does nothing: one view, a constant, no middleware.

The portal's own server serves it (portal/supervisor.py), so that it shows what server and machine cost by themselves.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from benchmarks.portal import CONSTANT, served

_LIMITS: Any = {"PATIENCE": 20, "CONNECTIONS": 4096, "CONNECTIONS_PER_ADDRESS": 256, "TRUSTED_PROXIES": ()}


def constant(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b'{"constant": true}', content_type="application/json")


urlpatterns = [path(CONSTANT[1:], constant)]

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", USE_TZ=True, **_LIMITS)

from base.serving.bridge import Bridge

application: Any = served(Bridge(get_wsgi_application(), lambda environ: 0))
