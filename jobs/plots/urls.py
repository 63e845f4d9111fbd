"""Pages of plots."""

from __future__ import annotations

from django.urls import URLPattern, path

from clusters.nodes.kubernetes import paths as _paths  # noqa: F401 - makes <node:name> known
from jobs.plots import exposition, views

_JOB = "jobs/<str:username>/<str:name>/metrics"

urlpatterns: list[URLPattern] = [
    path("metrics", exposition.Metrics.as_view(), name="metrics"),
    path("cluster/metrics", views.cluster, name="cluster-metrics"),
    path("cluster/metrics/data", views.cluster_data, name="cluster-metrics-data"),
    path("nodes/<node:name>/metrics", views.node, name="node-metrics"),
    path("nodes/<node:name>/metrics/data", views.node_data, name="node-metrics-data"),
    path(_JOB, views.show, name="job-metrics"),
    path(f"{_JOB}/data", views.data, name="job-metrics-data"),
    path(f"{_JOB}/csv", views.as_csv, name="job-metrics-csv"),
]
