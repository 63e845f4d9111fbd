"""The view that opens a failed task again."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from jobs import queries
from jobs.pages.rows import job_url
from jobs.rewind import services
from jobs.terminal.sockets import number
from portal.accounts.auth import require_user
from portal.accounts.guard import signed_in


@never_cache
@signed_in
@require_POST
def reopen(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """POST fields: task (worker-0), attempt. Leads to the terminal of the new job."""
    job = queries.get_job(username, name)
    asked = request.POST.get("task", ""), number(request.POST.get("attempt"))
    made = services.reopen(require_user(request), job, *asked)
    messages.success(request, f"{made.name} opens what {name} had. Stop it when you are done.")
    return redirect(f"{job_url(made.username, made.name)}/terminal")
