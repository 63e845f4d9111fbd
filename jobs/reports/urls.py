"""Pages of reports."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.reports import views

urlpatterns: list[URLPattern] = [
    path("usage", views.usage, name="usage"),
    path("forecasts", views.forecasts, name="forecasts"),
    path("timeline", views.timeline, name="timeline"),
]
