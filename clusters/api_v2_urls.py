"""Routes below ``/api/v2/``: users and groups, and virtual clusters as in v1."""

from __future__ import annotations

from django.urls import URLPattern, path

from clusters.users.urls import v2
from clusters.vcs import api as vc_api

urlpatterns: list[URLPattern] = [
    *v2,
    path("virtual-clusters", vc_api.VirtualClusters.as_view()),
    path("virtual-clusters/<str:vc>", vc_api.OneVirtualCluster.as_view()),
    path("virtual-clusters/<str:vc>/status", vc_api.VirtualClusterStatus.as_view()),
]
