"""Addresses of sweeps below ``/api/v1/``. A sweep is named ``user~name``."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.sweeps import api

urlpatterns: list[URLPattern] = [
    path("sweeps", api.Sweeps.as_view()),
    path("sweeps/validate", api.Validate.as_view()),
    path("sweeps/<str:sweep>", api.OneSweep.as_view()),
    path("sweeps/<str:sweep>/executionType", api.ExecutionType.as_view()),
]
