"""The view that opens a failed task again."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect

from base.core.words import whole
from jobs import queries
from jobs.rewind import services
from portal.shared.guard import own_post
from portal.shared.jobs.rows import job_url
from portal.shared.viewer import user_of


@own_post
def reopen(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """POST fields: task (worker-0), attempt. Leads to the terminal of the new job."""
    job = queries.get_job(username, name)
    asked = request.POST.get("task", ""), whole(request.POST.get("attempt"), 15) or 0
    opened = services.reopen(user_of(request), job, *asked)
    messages.success(request, f"{opened.name} opens what {name} had. Stop it when you are done.")
    return redirect(f"{job_url(opened.username, opened.name)}/terminal")
