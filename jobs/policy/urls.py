"""Pages of what-if and replay."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.policy import views

urlpatterns: list[URLPattern] = [
    path("policy", views.policy, name="policy"),
    path("replay", views.replays, name="replays"),
    path("replay/<int:id>", views.replay, name="replay"),
]
