"""Pages of what-if."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.policy import views

urlpatterns: list[URLPattern] = [
    path("policy", views.policy, name="policy"),
]
