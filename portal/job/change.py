"""The page on which the owner of a waiting job changes its config so that it starts now, and the buttons with which the
owner of a failed one submits it again with a change."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.html import format_html

from base.accounts import budget
from base.core.errors import BadRequest, LongshoreError, TooManyRequests
from base.models import User
from jobs import queries, services
from jobs.config.edit import CHANGE, ChangeAsked
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.waiting.why import offered
from portal.job.actions import waiters
from portal.job.config import difference, is_packed, pretty_printed
from portal.shared.guard import own_form, own_post
from portal.shared.jobs.rows import job_url
from portal.shared.viewer import user_of


@own_form
def change_job(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Field: change, as JSON. GET shows what would be submitted, POST does it and then stops the old job."""
    job, user = queries.get_job(username, name), user_of(request)
    asked = _asked(request)
    if request.method != "POST":
        return _page(request, user, job, asked)
    try:
        new = services.change(user, job, asked)
    except TooManyRequests:
        raise
    except LongshoreError as error:
        return _page(request, user, job, asked, error)
    messages.success(request, format_html("Job <b>{}</b> was submitted, and {} was stopped.", new.name, job.name))
    return redirect(job_url(new.username, new.name))


@own_post
def submit_again(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Field: change, as JSON. Submits an ended job anew with it, at once: the change is a number or a list of nodes."""
    job, user, asked = queries.get_job(username, name), user_of(request), _asked(request)
    try:
        new = services.again(user, job, asked)
    except TooManyRequests:
        raise
    except LongshoreError as error:
        messages.error(request, error.message)
        return redirect(job_url(job.username, job.name))
    text = "Job <b>{}</b> was submitted: {} with this change. Stop takes it back."
    messages.success(request, format_html(text, new.name, job.name))
    return redirect(job_url(new.username, new.name))


def _asked(request: HttpRequest) -> ChangeAsked:
    text = (request.POST if request.method == "POST" else request.GET).get("change", "")
    try:
        return CHANGE.validate_json(text)
    except ValueError as error:
        raise BadRequest("There is no such change.") from error


def _page(
    request: HttpRequest, user: User, job: Job, asked: ChangeAsked, error: LongshoreError | None = None
) -> HttpResponse:
    """Raises Forbidden for everybody but the owner, and TooManyRequests."""
    with budget.reading(user.username, job.config):
        text = services.changed_config(user, job, asked)
        old, new = (pretty_printed(each) if is_packed(each) else each for each in (job.config, text))
        lines = difference(old, new)
    waits = job.state == JobState.WAITING and job.execution == Job.Execution.START
    found = next((one for one in offered(job) if one.change == asked), None) if waits and error is None else None
    page = {
        "nav": "jobs",
        "job": job,
        "url": job_url(job.username, job.name),
        "asked": request.POST.get("change") or request.GET.get("change"),
        "name": queries.free_name(job.username, job.name),
        "lines": lines,
        "found": found,
        "waits": waits,
        "moves": "virtualCluster" in asked,
        "waiters": waiters([job]),
        "error": error.message if error else "",
    }
    return render(request, "job/change.html", page, status=error.status if error else 200)
