"""Views of the plots of a job, of a node and of the cluster, and of their data for the script and as CSV."""

from __future__ import annotations

import csv
import io
import time
from urllib.parse import quote

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from clusters.nodes import services
from jobs import access, queries, versions
from jobs.models import Job
from jobs.pages.live import address
from jobs.pages.tabs import context
from jobs.plots import page as plots
from jobs.plots import wholes
from portal.accounts.guard import reader
from portal.accounts.viewer import viewer_of

_MOST_POINTS = 720


@require_safe
@reader
def show(request: HttpRequest, username: str, name: str) -> HttpResponse:
    job = queries.get_job(username, name)
    query = request.GET.dict()
    own = {"user": username, "name": name, "tab": "metrics", "v": versions.of_job_page(job)}
    shared = context(job, viewer_of(request), "metrics", query)
    shown = plots.page(plots.choose(job, query), query)
    return render(request, "jobs/metrics.html", {"stream": address("job", **{**query, **own}), **shared, **shown})


@require_safe
@never_cache
@reader
def data(request: HttpRequest, username: str, name: str) -> JsonResponse:
    choice = plots.choose(_job(request, username, name), request.GET.dict())
    return JsonResponse(plots.data(choice, _MOST_POINTS))


@require_safe
@never_cache
@reader
def as_csv(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """A line for each task and step; a value that nobody knows is empty."""
    choice = plots.choose(_job(request, username, name), request.GET.dict())
    found = plots.data(choice, _MOST_POINTS, apart=False)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["time", "task", *found["plots"]])
    for number, task in enumerate(choice.shown):
        lines = [one["lines"][number] if number < len(one["lines"]) else [] for one in found["plots"].values()]
        for at, moment in enumerate(found["times"]):
            values = [line[at] if at < len(line) and line[at] is not None else "" for line in lines]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
            if any(value != "" for value in values):
                writer.writerow([stamp, task.label, *values])
    answer = HttpResponse(file.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{choice.job.name}-{choice.attempt.number}-metrics.csv"'
    return answer


@require_safe
@login_required
def node(request: HttpRequest, name: str) -> HttpResponse:
    row = services.find_node(name)
    url = f"/nodes/{quote(row.name)}/metrics"
    shown = wholes.page(wholes.of_node(row, request.GET.dict()), url)
    rows = wholes.idle_rows(viewer_of(request), row.name)
    context = {"nav": "nodes", "node": row, "idle": rows, "idle_minutes": wholes.idle_minutes(), **shown}
    return render(request, "jobs/node_metrics.html", context)


@require_safe
@never_cache
@login_required
def node_data(request: HttpRequest, name: str) -> JsonResponse:
    return JsonResponse(wholes.data(wholes.of_node(services.find_node(name), request.GET.dict())))


@require_safe
@login_required
def cluster(request: HttpRequest) -> HttpResponse:
    """With the idle GPUs and their owners."""
    shown = wholes.page(wholes.of_cluster(request.GET.dict()), "/cluster/metrics")
    rows = wholes.idle_rows(viewer_of(request))
    context = {"nav": "nodes", "idle": rows, "idle_minutes": wholes.idle_minutes(), **shown}
    return render(request, "jobs/node_metrics.html", context)


@require_safe
@never_cache
@login_required
def cluster_data(request: HttpRequest) -> JsonResponse:
    return JsonResponse(wholes.data(wholes.of_cluster(request.GET.dict())))


def _job(request: HttpRequest, username: str, name: str) -> Job:
    job = queries.get_job(username, name)
    access.require_story(viewer_of(request), job)
    return job
