"""The page that says everything about why a job waits."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs import access, queries
from jobs.pages import cause
from jobs.pages.rows import job_url
from jobs.planning.what_if.changes import Change
from jobs.scheduling.why import Why, why
from portal.accounts.guard import reader
from portal.accounts.viewer import viewer_of


@require_safe
@never_cache
@reader
def page(request: HttpRequest, username: str, name: str) -> HttpResponse:
    job, viewer = queries.get_job(username, name), viewer_of(request)
    access.require_story(viewer, job)
    found, url = why(job), job_url(username, name)
    context = {
        "nav": "jobs",
        "job": job,
        "url": url,
        "why": found,
        "cause": cause.waiting(found.reason) if found else None,
        "changes": _changes(found, url, viewer.username == username) if found else [],
        "may_read_config": access.may_read_config(viewer, job),
    }
    return render(request, "jobs/why.html", context)


def _changes(found: Why, url: str, is_owner: bool) -> list[tuple[Change, str]]:
    """Each with the address of the page that makes it; that is empty where the viewer may not, or nobody can."""
    return [
        (one, f"{url}/change?{urlencode({'change': json.dumps(one.change)})}" if is_owner and one.is_of_config else "")
        for one in found.changes
    ]
