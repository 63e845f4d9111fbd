"""Views that stop, release and delete jobs. A GET says what would happen and asks; the POST does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from jobs import access, queries, services
from jobs.models import Dependency, Job, Task
from jobs.pages.rows import job_url, shown_state
from jobs.planning.lifecycle import TASK_LIVE, JobState
from portal.accounts.auth import require_user
from portal.accounts.guard import signed_in
from portal.accounts.viewer import viewer_of
from portal.core import words
from portal.core.errors import BadRequest, NoJob
from portal.web.confirm import ask, back

MOST_WITHOUT_TYPING = 20
MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Item:
    """One job in the question."""

    full_name: str
    state: str
    says: str


@never_cache
@signed_in
@require_http_methods(["GET", "POST"])
def stop(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    job = queries.get_job(username, name)
    access.require_write(viewer_of(request), job, "execute")
    if request.method == "GET":
        return _ask_stop(request, [job], request.path, bulk=False, skipped=0)
    if services.stop(require_user(request), job):
        messages.success(request, f"{job.name} was asked to stop.")
    else:
        messages.success(request, f"{job.name} had ended or was stopping already.")
    return redirect(back(request, job_url(username, name)))


@never_cache
@signed_in
@require_http_methods(["GET", "POST"])
def release(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    job = queries.get_job(username, name)
    access.require_write(viewer_of(request), job, "execute")
    if request.method == "GET":
        return ask(
            request,
            job_url(username, name),
            nav="jobs",
            title=f"Release {job.name}?",
            effect="The containers that are kept for debugging end now, with the exit codes their commands had.",
            verb="Release",
            verb_icon="player-eject",
            keep="Keep them",
        )
    if services.release(require_user(request), job):
        messages.success(request, f"{job.name} is let go. It ends with the exit code its command had.")
    else:
        messages.success(request, "Nothing was kept for debugging any more.")
    return redirect(back(request, job_url(username, name)))


@never_cache
@signed_in
@require_http_methods(["GET", "POST"])
def stop_many(request: HttpRequest) -> HttpResponseBase:
    """Fields: job (user/name), many times; typed (the number of jobs, when there are many)."""
    chosen = _chosen((request.POST if request.method == "POST" else request.GET).getlist("job"))
    able = [job for job in chosen if _may_stop(request, job)]
    if request.method == "GET":
        return _ask_stop(request, able, "/jobs/stop", bulk=True, skipped=len(chosen) - len(able))
    if len(able) > MOST_WITHOUT_TYPING and request.POST.get("typed") != str(len(able)):
        raise BadRequest(f"Type {len(able)} to stop {len(able)} jobs. Nothing was stopped.")
    done = services.stop_many(require_user(request), able)
    messages.success(request, f"{words.count(done.stopped, 'job was', 'jobs were')} asked to stop.")
    return redirect(back(request, "/jobs"))


@never_cache
@signed_in
@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    job = queries.get_job(username, name)
    access.require_write(viewer_of(request), job, "remove")
    if request.method == "GET":
        return _ask(request, _delete_question(job), [job], request.path, bulk=False)
    services.delete(require_user(request), job)
    messages.success(request, format_html("{} was deleted.", job.name))
    return redirect("/jobs")


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
    is_dialog = request.headers.get("HX-Request") == "true"
    target = back(request, "/jobs" if bulk else job_url(jobs[0].username, jobs[0].name))
    more = {"action": action, "items": [_item(job) for job in jobs], "bulk": bulk, "is_dialog": is_dialog}
    template = "components/_confirm.html" if is_dialog else "confirm.html"
    return render(request, template, {"nav": "jobs", "back": target, "next": target, **more, **page})


def _stop_effect(jobs: Sequence[Job]) -> str:
    live = Task.objects.filter(job__in=jobs, state__in=TASK_LIVE)
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


def _delete_question(job: Job) -> dict[str, Any]:
    runs = "It is stopped first. " if job.state in queries.LIVE else ""
    return {
        "title": f"Delete {job.name}?",
        "verb": "Delete",
        "verb_icon": "trash",
        "keep": "Keep it",
        "effect": f"{runs}The job, its attempts, events and logs are gone for good, and its name is free again."
        f"{waiters([job])}",
    }


def _item(job: Job) -> Item:
    says = words.count(job.total_tasks, "task")
    return Item(f"{job.username}/{job.name}", shown_state(job.state, job.execution), says)


def _may_stop(request: HttpRequest, job: Job) -> bool:
    return access.may_stop(viewer_of(request), job.username, job.state, job.execution)


def _chosen(names: Sequence[str]) -> list[Job]:
    """The jobs of these names that still exist, in the same order."""
    jobs = []
    for full_name in dict.fromkeys(names[:MOST_AT_ONCE]):
        username, _, name = full_name.partition("/")
        try:
            jobs.append(queries.get_job(username, name))
        except NoJob:
            continue
    return jobs
