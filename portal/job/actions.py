"""Views that stop, release and delete jobs. A GET says what would happen and asks; the POST does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.html import format_html

from base.core import words
from base.core.errors import BadRequest
from jobs import access, queries, services
from jobs.models import Dependency, Job, Task
from jobs.planning.lifecycle import TASK_LIVE_STATES, JobState
from portal.shared.confirm import ask_to_confirm, question, return_url
from portal.shared.guard import own_form
from portal.shared.jobs.rows import job_url, shown_state
from portal.shared.viewer import user_of, viewer_of

MOST_WITHOUT_TYPING = 20
MOST_AT_ONCE = 100


@own_form
def stop_job(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    job = _owned(request, username, name, "execute")
    if request.method != "POST" and request.GET.get("now"):
        effect = "Its tasks are killed at once. What they have not saved is lost."
        asked = question(f"Stop {name} now?", effect, "Stop now", "player-stop", "Let it end", now="1")
        return ask_to_confirm(request, job_url(username, name), nav="jobs", **asked)
    if request.method != "POST":
        return _ask_stop(request, [job], request.path, bulk=False, skipped=0)
    stops = services.stop(user_of(request), job, now=bool(request.POST.get("now")))
    return _done(request, job, f"{job.name} {'was asked to stop' if stops else 'had ended or was stopping already'}.")


@own_form
def release_job(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    job = _owned(request, username, name, "execute")
    if request.method != "POST":
        effect = "The containers that are kept for debugging end now, with the exit codes their commands had."
        asked = question(f"Release {job.name}?", effect, "Release", "player-eject", "Keep them")
        return ask_to_confirm(request, job_url(username, name), nav="jobs", **asked)
    if services.release(user_of(request), job):
        return _done(request, job, f"{job.name} is let go. It ends with the exit code its command had.")
    return _done(request, job, "Nothing was kept for debugging any more.")


@own_form
def stop_jobs(request: HttpRequest) -> HttpResponseBase:
    """Fields: job (user/name), many times; typed (the number of jobs, when there are many)."""
    chosen = _chosen((request.POST if request.method == "POST" else request.GET).getlist("job"))
    viewer = viewer_of(request)
    able = [job for job in chosen if access.may_stop(viewer, job.username, job.state, job.execution)]
    if request.method != "POST":
        return _ask_stop(request, able, "/jobs/stop", bulk=True, skipped=len(chosen) - len(able))
    if len(able) > MOST_WITHOUT_TYPING and request.POST.get("typed") != str(len(able)):
        raise BadRequest(f"Type {len(able)} to stop {len(able)} jobs. Nothing was stopped.")
    done = services.stop_many(user_of(request), able)
    messages.success(request, f"{words.count(len(done.stopped), 'job was', 'jobs were')} asked to stop.")
    return redirect(return_url(request, "/jobs"))


@own_form
def delete_job(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    job = _owned(request, username, name, "remove")
    if request.method != "POST":
        runs = "It is stopped first. " if job.state in queries.LIVE else ""
        gone = "The job, its attempts, events and logs are gone for good, and its name is free again."
        page = question(f"Delete {job.name}?", f"{runs}{gone}{waiters([job])}", "Delete", keep="Keep it")
        return _ask(request, page, [job], request.path, bulk=False)
    services.delete(user_of(request), job)
    messages.success(request, format_html("{} was deleted.", job.name))
    return redirect("/jobs")


def _owned(request: HttpRequest, username: str, name: str, act: Literal["execute", "remove"]) -> Job:
    """The job, with which the viewer may do that. Raises NoJob, Forbidden."""
    job = queries.get_job(username, name)
    access.require_write(viewer_of(request), job, act)
    return job


def _done(request: HttpRequest, job: Job, says: str) -> HttpResponse:
    messages.success(request, says)
    return redirect(return_url(request, job_url(job.username, job.name)))


def _ask_stop(request: HttpRequest, jobs: Sequence[Job], action: str, *, bulk: bool, skipped: int) -> HttpResponse:
    many = f"{len(jobs):,} jobs" if bulk and len(jobs) != 1 else "1 job" if bulk else jobs[0].name
    page = {
        "title": f"Stop {many}?" if jobs else "No job to stop",
        "verb": f"Stop {many}" if bulk else "Stop",
        "verb_icon": "player-stop",
        "keep": "Keep running" if jobs else "Back",
        "effect": _stop_effect(jobs) if jobs else "Select waiting or running jobs that you own.",
        "skipped": f"{words.count(skipped, 'job')} left out: ended, stopping or not yours." if skipped else "",
        "type_number": len(jobs) if len(jobs) > MOST_WITHOUT_TYPING else 0,
    }
    return _ask(request, page, jobs, action, bulk=bulk)


def _ask(request: HttpRequest, page: dict[str, Any], jobs: Sequence[Job], action: str, *, bulk: bool) -> HttpResponse:
    otherwise = "/jobs" if bulk else job_url(jobs[0].username, jobs[0].name)
    items = [
        {
            "full_name": f"{job.username}/{job.name}",
            "state": shown_state(job.state, job.execution),
            "says": words.count(job.total_tasks, "task"),
        }
        for job in jobs
    ]
    return ask_to_confirm(
        request, otherwise, nav="jobs", action=action, items=items, bulk=bulk, **(page | {"sure": bool(jobs)})
    )


def _stop_effect(jobs: Sequence[Job]) -> str:
    live = Task.objects.filter(job__in=jobs, state__in=TASK_LIVE_STATES)
    held = live.aggregate(tasks=Count("id"), nodes=Count("node", distinct=True))
    gpus = sum(job.total_gpus for job in jobs if job.state == JobState.RUNNING)
    fail = waiters(jobs)
    if not held["tasks"]:
        return f"Nothing of it runs yet. A stopped job cannot go on, but it can be cloned.{fail}"
    ends = f"{words.count(held['tasks'], 'task')} on {words.count(held['nodes'], 'node')} end"
    if held["tasks"] == 1:
        ends += "s"
    free = f"; {words.count(gpus, 'GPU becomes', 'GPUs become')} free" if gpus else ""
    lost = "Work since the last checkpoint is lost. A stopped job cannot go on, but it can be cloned."
    return f"{ends}{free}. {lost}{fail}"


def waiters(jobs: Sequence[Job]) -> str:
    """Which jobs fail because they wait for the success of these."""
    waits = Dependency.objects.filter(on__in=jobs, ended="", condition="success", job__state=JobState.WAITING)
    names = list(waits.order_by("id").values_list("job__username", "job__name").distinct()[:4])
    if not names:
        return ""
    listed = words.listing([f"{username}/{name}" for username, name in names])
    return f" What waits for its success fails: {listed}."


def _chosen(names: Sequence[str]) -> list[Job]:
    """The jobs of these full names that still exist, in the same order; one statement for each of their users."""
    of_user: dict[str, list[str]] = {}
    for full_name in names[:MOST_AT_ONCE]:
        username, _, name = full_name.partition("/")
        of_user.setdefault(username, []).append(name)
    found = {str(job): job for username, own in of_user.items() for job in queries.named(username, own)}
    return [found[name] for name in dict.fromkeys(names[:MOST_AT_ONCE]) if name in found]
