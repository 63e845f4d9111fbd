"""Views of the home page, the job list and the jump box."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from base.core.errors import NoJob
from jobs import queries, versions
from portal.lists.home.near import suggestions
from portal.lists.home.page import CLUSTER, home_context, home_version
from portal.lists.listing import ListQuery, listing, place_named
from portal.shared.guard import reading
from portal.shared.jobs.rows import job_url
from portal.shared.live.page import address
from portal.shared.viewer import viewer_of


@reading
def home(request: HttpRequest) -> HttpResponse:
    view = request.GET.get("as", "")
    version = home_version(view)  # before the page is read: what changes meanwhile is sent again
    page = home_context(viewer_of(request), as_cluster=view == CLUSTER)
    return render(request, "lists/home.html", {"stream": address("home", **{"as": view}, v=version), **page})


@reading
def job_list(request: HttpRequest) -> HttpResponse:
    query = ListQuery(request.GET.dict())
    version = versions.of_pages()
    page = listing(query, viewer_of(request))
    rows = page["rows"]
    top = max((row.id for row in rows), default=0)
    lines = {"top": top, "shown": len(rows), "sel": "1" if page["selectable"] else ""}
    stream = address("jobs", **{**request.GET.dict(), **lines, "v": version})
    return render(request, "lists/list.html", {"stream": stream, **page})


@reading
def jump_suggestions(request: HttpRequest) -> HttpResponse:
    """What the jump box suggests while somebody types."""
    text = request.GET.get("q", "").strip()[:100]
    return render(request, "lists/_near.html", suggestions(text, viewer_of(request)))


@reading
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
