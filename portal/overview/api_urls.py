"""Addresses about hosts below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.overview import api

urlpatterns: list[URLPattern] = [path("hosts", api.Hosts.as_view())]
