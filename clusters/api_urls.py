"""Routes below ``/api/v1/`` about nodes, virtual clusters, users and groups."""

from __future__ import annotations

from django.urls import path

from clusters.nodes import api
from clusters.nodes.kubernetes import paths as _paths  # noqa: F401 - makes <node:name> known
from clusters.users.urls import v1
from clusters.vcs import api as vc_api

urlpatterns = [
    *v1,
    path("nodes", api.NodeList.as_view(), name="api-nodes"),
    path("nodes/<node:name>", api.NodeDetail.as_view(), name="api-node"),
    path("nodes/<node:name>/status", api.NodeStatusView.as_view(), name="api-node-status"),
    path("nodes/<node:name>/gone", api.NodeGone.as_view(), name="api-node-gone"),
    path("virtual-clusters", vc_api.VirtualClusters.as_view()),
    path("virtual-clusters/<str:vc>", vc_api.OneVirtualCluster.as_view()),
    path("virtual-clusters/<str:vc>/status", vc_api.VirtualClusterStatus.as_view()),
]
