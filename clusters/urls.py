"""Pages below ``/``. Routes carry no trailing slash; a request with one finds them too."""

from __future__ import annotations

from django.urls import URLPattern, path

from clusters.nodes import views

urlpatterns: list[URLPattern] = [path("nodes", views.nodes, name="nodes")]
