"""The address of the page of hosts."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.overview import views

urlpatterns: list[URLPattern] = [path("hosts", views.show, name="hosts")]
