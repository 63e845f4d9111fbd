"""The page on which the owner of a waiting job, an admin, or a manager changes its place in the queue."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from base.core import words
from base.core.errors import BadRequest, LongshoreError
from base.models import User
from clusters.vcs.grants import most_priority
from clusters.vcs.rules import MOST_PRIORITY
from jobs import access, order, queries
from jobs.models import Job
from jobs.waiting.why import turn_of
from portal.shared.guard import own_form
from portal.shared.jobs.rows import job_url
from portal.shared.viewer import user_of

MOST_AHEAD = 100  # jobs that are offered to be overtaken


@own_form
def move_in_queue(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Fields of the POST: priority (a number), or before (user/job)."""
    job = queries.get_job(username, name)
    user = user_of(request)
    if not order.may_order(user, job):
        access.require_write(user, job, "prioritize")
    if request.method != "POST":
        return _page(request, job, user)
    try:
        says = _move(request, user, job) if "before" in request.POST else _prioritize(request, user, job)
    except LongshoreError as error:
        return _page(request, job, user, error)
    messages.success(request, says)
    return redirect(job_url(username, name))


def _prioritize(request: HttpRequest, user: User, job: Job) -> str:
    text = request.POST.get("priority", "").strip()
    if not text.removeprefix("-").isdecimal() or len(text) > 5:
        raise BadRequest("A priority is a whole number from -100 to 100.")
    order.set_priority(user, job, int(text))
    return f"{job.name} has priority {int(text)}."


def _move(request: HttpRequest, user: User, job: Job) -> str:
    username, _, name = request.POST["before"].partition("/")
    other = queries.get_job(username, name)
    order.move_before(user, job, other)
    return f"{job.name} starts before {other.username}/{other.name}."


def _page(request: HttpRequest, job: Job, user: User, error: LongshoreError | None = None) -> HttpResponse:
    turn = turn_of(job) if order.may_prioritize(user, job) else None
    allowed = most_priority(user.username, job.vc, is_admin=user.is_admin)
    page = {
        "nav": "jobs",
        "job": job,
        "url": job_url(job.username, job.name),
        "waits": turn is not None,
        "place": words.ordinal(turn.position) if turn else "",
        "ahead": _names([other.id for other in turn.ahead[:MOST_AHEAD]]) if turn and order.may_order(user, job) else [],
        "most": max(job.priority, allowed),
        "allowed": allowed,
        "least": -MOST_PRIORITY,
        "may_order": order.may_order(user, job),
        "error": error.message if error else "",
        "typed": request.POST.get("priority", job.priority),
    }
    return render(request, "job/place.html", page, status=error.status if error else 200)


def _names(ids: list[int]) -> list[str]:
    """user/job of each, in this order."""
    rows = Job.objects.filter(id__in=ids).values_list("id", "username", "name")
    names = {id: f"{username}/{name}" for id, username, name in rows}
    return [names[id] for id in ids if id in names]
