"""Pages of plots."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.plots import exposition, views

_JOB = "jobs/<str:username>/<str:name>/metrics"

urlpatterns: list[URLPattern] = [
    path("metrics", exposition.Metrics.as_view(), name="metrics"),
    path(_JOB, views.show, name="job-metrics"),
    path(f"{_JOB}/data", views.data, name="job-metrics-data"),
    path(f"{_JOB}/csv", views.as_csv, name="job-metrics-csv"),
]
