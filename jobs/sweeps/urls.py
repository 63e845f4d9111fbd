"""Pages of sweeps."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.sweeps import views

urlpatterns: list[URLPattern] = [
    path("sweeps/<str:username>/<str:name>", views.show, name="sweep"),
    path("sweeps/<str:username>/<str:name>/stop", views.stop, name="sweep-stop"),
]
