"""Addresses about metrics below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.plots import api

urlpatterns: list[URLPattern] = [
    each
    for root in ("jobs", "user/<str:username>/jobs")
    for each in (
        path(f"{root}/<str:job>/taskRoles/<str:role>/<int:index>/metrics", api.TaskMetrics.as_view()),
        path(f"{root}/<str:job>/metrics/summary", api.Summary.as_view()),
    )
]
