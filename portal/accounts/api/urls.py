"""Routes below ``/api/v1/`` and ``/api/v2/``."""

from __future__ import annotations

from django.urls import path

from portal.accounts.api.authn import AuthnInfo
from portal.accounts.api.tokens import TokenView

urlpatterns = [
    path("token", TokenView.as_view(), name="token"),
    path("authn/info", AuthnInfo.as_view()),
    path("authn/basic/login", TokenView.as_view()),
]
