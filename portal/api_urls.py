"""Routes below ``/api/v1/``."""

from __future__ import annotations

from django.urls import path

from portal.token_api import TokenView

urlpatterns = [path("token", TokenView.as_view(), name="token")]
