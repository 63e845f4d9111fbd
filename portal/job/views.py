"""Views of a job's page and its tabs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from base.core.errors import NoJob
from jobs import access, queries, versions
from jobs.containers import ssh
from portal.job.tabs import context
from portal.shared.guard import fresh_reading, reading
from portal.shared.jobs.rows import JobRow, rows_of
from portal.shared.live.page import address
from portal.shared.viewer import viewer_of


@reading
def job_page(request: HttpRequest, username: str, name: str, tab: str) -> HttpResponse:
    """The page with one of the tabs that need no view of their own (logs and config have one)."""
    return _tab(request, username, name, tab)


@reading
def job_config(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    if "download" not in request.GET:
        return _tab(request, username, name, "config")
    job = queries.get_job(username, name)
    access.require_config(viewer_of(request), job)
    answer = HttpResponse(job.config, content_type="application/json; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{job.name}.jsonc"'
    return answer


@fresh_reading
def ssh_logins(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """The part of the ssh tab that asks containers. The tab fetches it, so that the page itself does not wait."""
    job = queries.get_job(username, name)
    access.require_config(viewer_of(request), job)
    may_have_key = access.may_write(viewer_of(request), job)
    context = {
        "job": job,
        "logins": ssh.logins(job, queries.current_attempt(job)),
        "file": ssh.key_file(job),
        "link": ssh.key_link(job, f"{request.scheme}://{request.get_host()}", signed=True) if may_have_key else "",
        "minutes": ssh.LINK_SECONDS // 60,
    }
    return render(request, "job/_ssh_logins.html", context)


def _tab(request: HttpRequest, username: str, name: str, tab: str) -> HttpResponse:
    try:
        job = queries.get_job(username, name)
    except NoJob:
        return _not_found(request, username, name)
    own = {"user": username, "name": name, "tab": tab, "v": versions.of_job_page(job)}
    stream = address("job", **{**request.GET.dict(), **own})
    return render(
        request, "job/detail.html", {"stream": stream, **context(job, viewer_of(request), tab, request.GET.dict())}
    )


def _not_found(request: HttpRequest, username: str, name: str) -> HttpResponse:
    page = {"status": 404, "message": f"There is no job {username}/{name}", "code": NoJob.code}
    return render(request, "error.html", {**page, "near": _near(request, username, name)}, status=404)


def _near(request: HttpRequest, username: str, name: str) -> list[JobRow]:
    """The newest jobs of that user whose name begins in the same way."""
    if "\x00" in username + name:  # PostgreSQL refuses to look for it
        return []
    alike = queries.list_jobs(queries.JobFilter(username=username)).filter(name__istartswith=name[:6])
    return rows_of(list(alike[:3]), viewer_of(request))
