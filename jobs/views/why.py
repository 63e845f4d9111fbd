"""The page that says everything about why a job waits."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs import access, queries
from jobs.pages import cause
from jobs.pages.rows import job_url
from jobs.scheduling.why import why
from portal.accounts.guard import reader
from portal.accounts.viewer import viewer_of


@require_safe
@never_cache
@reader
def page(request: HttpRequest, username: str, name: str) -> HttpResponse:
    job, viewer = queries.get_job(username, name), viewer_of(request)
    access.require_story(viewer, job)
    found = why(job)
    context = {
        "nav": "jobs",
        "job": job,
        "url": job_url(username, name),
        "why": found,
        "cause": cause.waiting(found.reason) if found else None,
        "may_read_config": access.may_read_config(viewer, job),
    }
    return render(request, "jobs/why.html", context)
