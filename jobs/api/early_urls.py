"""Addresses of the routes of v0.1, which have no version: below ``/api/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.api import early

urlpatterns: list[URLPattern] = [
    path("auth", early.Auth.as_view()),
    path("job", early.Jobs.as_view()),
    path("job/<str:job>", early.OneJob.as_view()),
]
