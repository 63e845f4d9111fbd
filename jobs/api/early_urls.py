"""Routes below ``/api/`` from before there was a version in them."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.api import early

urlpatterns: list[URLPattern] = [
    path("auth", early.Auth.as_view()),
    path("job", early.Jobs.as_view()),
    path("job/<str:job>", early.OneJob.as_view()),
]
