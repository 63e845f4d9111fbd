"""Addresses of the job routes below ``/api/v1/``. They have no slash at their end; a request may have one.

Every job route exists below ``/jobs`` (where a name may be ``user~job``) and below ``/user/:username/jobs``.
"""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.api import detail, history, lists, log_pages, logs, rewind, terminal, why

_OF_A_JOB = {
    "": detail.JobDetail,
    "/executionType": detail.ExecutionType,
    "/release": detail.Release,
    "/rewind": rewind.Rewind,
    "/priority": detail.Priority,
    "/position": detail.Position,
    "/config": detail.JobConfig,
    "/ssh": detail.JobSsh,
    "/attempts": history.Attempts,
    "/attempts/<str:number>": history.OneAttempt,
    "/events": history.Events,
    "/why": why.JobWhy,
}


def job_routes(root: str) -> list[URLPattern]:
    return [path(f"{root}/<str:job>{part}", view.as_view()) for part, view in _OF_A_JOB.items()]


_LOGS = "<str:job>/taskRoles/<str:role>/<int:index>/logs"
log_routes: list[URLPattern] = [
    each
    for root in ("jobs", "user/<str:username>/jobs")
    for each in (
        path(f"{root}/<str:job>/logs", logs.JobLogs.as_view()),
        path(f"{root}/{_LOGS}/<int:attempt>", log_pages.ContainerLogs.as_view()),
        path(f"{root}/{_LOGS}/<str:stream>", logs.TaskLog.as_view()),
        path(f"{root}/{_LOGS}/<int:attempt>/<str:stream>", log_pages.ContainerLog.as_view()),
    )
]
terminal_routes: list[URLPattern] = [
    path(f"{root}/<str:job>/taskRoles/<str:role>/<int:index>/terminal", terminal.TerminalTicket.as_view())
    for root in ("jobs", "user/<str:username>/jobs")
]
urlpatterns: list[URLPattern] = [
    *log_routes,
    *terminal_routes,
    path("jobs", lists.JobList.as_view()),
    path("jobs/validate", lists.Validate.as_view(), {"job": "validate"}),
    *job_routes("jobs"),
    path("user/<str:username>/jobs", lists.JobList.as_view()),
    *job_routes("user/<str:username>/jobs"),
]
