"""Routes below ``/api/v1/``. They carry no trailing slash; a request with one finds them too.

Every job route exists below ``/jobs`` (where a name may be ``user~job``) and below ``/user/:username/jobs``.
"""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.api import detail, history, lists
from jobs.views.logs import log_api_patterns

_OF_A_JOB = {
    "": detail.JobDetail,
    "/executionType": detail.ExecutionType,
    "/release": detail.Release,
    "/config": detail.JobConfig,
    "/ssh": detail.JobSsh,
    "/attempts": history.Attempts,
    "/attempts/<str:number>": history.OneAttempt,
    "/events": history.Events,
}


def job_routes(root: str) -> list[URLPattern]:
    return [path(f"{root}/<str:job>{part}", view.as_view()) for part, view in _OF_A_JOB.items()]


urlpatterns: list[URLPattern] = [
    *log_api_patterns,
    path("jobs", lists.JobList.as_view()),
    path("jobs/validate", lists.Validate.as_view(), {"job": "validate"}),
    *job_routes("jobs"),
    path("user/<str:username>/jobs", lists.JobList.as_view()),
    *job_routes("user/<str:username>/jobs"),
]
