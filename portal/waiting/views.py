"""The page that says everything about why a job waits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import urlencode

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from jobs import access, queries
from jobs.waiting.changes import Change
from jobs.waiting.why import offered, why
from portal.job import cause
from portal.shared.guard import fresh_reading
from portal.shared.jobs.rows import job_url
from portal.shared.viewer import viewer_of

MOST_FIXES = 3
FIXES_LAST = 30  # seconds


@fresh_reading
def why_page(request: HttpRequest, username: str, name: str) -> HttpResponse:
    job, viewer = queries.get_job(username, name), viewer_of(request)
    access.require_details(viewer, job)
    found, url = why(job), job_url(username, name)
    context = {
        "nav": "jobs",
        "job": job,
        "url": url,
        "why": found,
        "cause": cause.waiting(found.reason) if found else None,
        "changes": _changes(found.changes, url, viewer.username == username) if found else [],
        "may_read_config": access.may_read_config(viewer, job),
    }
    return render(request, "waiting/why.html", context)


@fresh_reading
def why_fixes(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """The changes alone, for the job's own page. Trying them takes some time, so a job's are known for a while."""
    job, viewer = queries.get_job(username, name), viewer_of(request)
    access.require_details(viewer, job)
    key = f"fixes:{job.pk}"
    changes: Sequence[Change] | None = cache.get(key)
    if changes is None:
        cache.set(key, changes := offered(job), FIXES_LAST)
    shown = _changes(changes[:MOST_FIXES], job_url(username, name), viewer.username == username)
    return render(request, "waiting/_fixes.html", {"changes": shown}) if shown else HttpResponse()


def _changes(changes: Sequence[Change], url: str, is_owner: bool) -> list[tuple[Change, str]]:
    """Each with the address of the page that makes it; that is empty where the viewer may not, or nobody can."""
    return [
        (
            each,
            f"{url}/change?{urlencode({'change': json.dumps(each.change)})}" if is_owner and each.is_of_config else "",
        )
        for each in changes
    ]
