"""Routes below ``/api/v1/`` about nodes."""

from __future__ import annotations

from django.urls import path

from clusters import api

urlpatterns = [
    path("nodes", api.NodeList.as_view(), name="api-nodes"),
    path("nodes/<str:name>", api.NodeDetail.as_view(), name="api-node"),
    path("nodes/<str:name>/status", api.NodeStatusView.as_view(), name="api-node-status"),
]
