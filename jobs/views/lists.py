"""Views of the home page, the job list and the jump box."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from jobs import queries, versions
from jobs.pages.home import home as home_page
from jobs.pages.listing import ListQuery, listing, place_named
from jobs.pages.live import address
from jobs.pages.rows import job_url
from portal.accounts.guard import reader
from portal.accounts.viewer import viewer_of
from portal.core.errors import NoJob


@require_safe
@reader
def home(request: HttpRequest) -> HttpResponse:
    stream = address("home", v=versions.of_pages())  # before the page is read: what changes meanwhile is sent again
    return render(request, "jobs/home.html", {"stream": stream, **home_page(viewer_of(request))})


@require_safe
@reader
def job_list(request: HttpRequest) -> HttpResponse:
    query = ListQuery.read(request.GET.dict())
    version = versions.of_pages()
    page = listing(query, viewer_of(request))
    rows = page["rows"]
    top = max((row.id for row in rows), default=0)
    lines = {"top": top, "shown": len(rows), "sel": "1" if page["selectable"] else ""}
    stream = address("jobs", **{**request.GET.dict(), **lines, "v": version})
    return render(request, "jobs/list.html", {"stream": stream, **page})


@require_safe
@reader
def jump(request: HttpRequest) -> HttpResponse:
    """A path opens the file. ``user/job``, ``user~job`` or a name that only one job has opens the job, then the name of
    a node or virtual cluster opens that. Any other text is searched in the job list."""
    wanted = request.GET.get("q", "").strip()
    if wanted.startswith(("/", "hdfs://")):
        return redirect(f"/files{quote(wanted.removeprefix('hdfs:/'))}")
    username, slash, name = wanted.partition("/")
    try:
        mine = request.user.get_username()
        job = queries.get_job(username, name) if slash else queries.get_job("", wanted, mine=mine)
    except NoJob:
        return redirect(place_named(wanted) or (f"/jobs?{urlencode({'keyword': wanted})}" if wanted else "/jobs"))
    return redirect(job_url(job.username, job.name))
