"""Addresses of reports below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.reports import forecasts_api, timeline_api, usage_api

urlpatterns: list[URLPattern] = [
    path("usage", usage_api.Usage.as_view()),
    path("cluster/forecasts", forecasts_api.Forecasts.as_view()),
    path("cluster/timeline", timeline_api.Timeline.as_view()),
]
