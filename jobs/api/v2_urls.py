"""Addresses of the job routes below ``/api/v2/``: those of v1, for v1's JSON jobs, and v2's own answer to a
submission."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.api import lists, v2
from jobs.api.urls import job_routes, log_routes

urlpatterns: list[URLPattern] = [
    *log_routes,
    path("jobs", v2.JobList.as_view()),
    path("jobs/protocolversion/config", v2.ProtocolProbe.as_view()),
    path("jobs/<str:job>/config", v2.JobConfig.as_view()),
    *job_routes("jobs"),
    path("user/<str:username>/jobs", lists.JobList.as_view()),
    *job_routes("user/<str:username>/jobs"),
]
