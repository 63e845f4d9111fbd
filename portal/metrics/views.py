"""Views of the plots of a job, of a node and of the cluster, and of their data for the script and as CSV."""

from __future__ import annotations

import time
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from clusters.nodes import services
from jobs import access, queries, versions
from jobs.models import Job
from portal.job.tabs import context
from portal.metrics import overview, page
from portal.shared.guard import fresh_page, fresh_reading, own_page, reading
from portal.shared.live.page import address
from portal.shared.sheets import saved, sheet
from portal.shared.viewer import viewer_of

_MOST_POINTS = 720


@reading
def job_metrics(request: HttpRequest, username: str, name: str) -> HttpResponse:
    job = queries.get_job(username, name)
    query = request.GET.dict()
    own = {"user": username, "name": name, "tab": "metrics", "v": versions.of_job_page(job)}
    shared = context(job, viewer_of(request), "metrics", query)
    shown = page.page(page.choose(job, query), query)
    return render(request, "metrics/metrics.html", {"stream": address("job", **{**query, **own}), **shared, **shown})


@fresh_reading
def job_metrics_data(request: HttpRequest, username: str, name: str) -> JsonResponse:
    choice = page.choose(_job(request, username, name), request.GET.dict())
    return JsonResponse(page.data(choice, _MOST_POINTS))


@fresh_reading
def job_metrics_csv(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """A line for each task and step; a value that nobody knows is empty."""
    choice = page.choose(_job(request, username, name), request.GET.dict())
    data = page.data(choice, _MOST_POINTS, apart=False)
    rows = [["time", "task", *data["plots"]]]
    for number, task in enumerate(choice.shown):
        lines = [plot["lines"][number] if number < len(plot["lines"]) else [] for plot in data["plots"].values()]
        for at, moment in enumerate(data["times"]):
            values = [line[at] if at < len(line) and line[at] is not None else "" for line in lines]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
            if any(value != "" for value in values):
                rows.append([stamp, task.label, *values])
    return saved(sheet(rows), f"{choice.job.name}-{choice.attempt.number}-metrics")


@own_page
def node_metrics(request: HttpRequest, name: str) -> HttpResponse:
    row = services.find_node(name)
    url = f"/nodes/{quote(row.name)}/metrics"
    shown = overview.page(overview.of_node(row, request.GET.dict()), url)
    rows = overview.idle_rows(viewer_of(request), row.name)
    context = {"nav": "nodes", "node": row, "idle": rows, "idle_minutes": overview.idle_minutes(), **shown}
    return render(request, "metrics/node_metrics.html", context)


@fresh_page
def node_metrics_data(request: HttpRequest, name: str) -> JsonResponse:
    return JsonResponse(overview.data(overview.of_node(services.find_node(name), request.GET.dict())))


@own_page
def cluster_metrics(request: HttpRequest) -> HttpResponse:
    """It shows the idle GPUs and their owners too."""
    shown = overview.page(overview.of_cluster(request.GET.dict()), "/cluster/metrics")
    rows = overview.idle_rows(viewer_of(request))
    context = {"nav": "nodes", "idle": rows, "idle_minutes": overview.idle_minutes(), **shown}
    return render(request, "metrics/node_metrics.html", context)


@fresh_page
def cluster_metrics_data(request: HttpRequest) -> JsonResponse:
    return JsonResponse(overview.data(overview.of_cluster(request.GET.dict())))


def _job(request: HttpRequest, username: str, name: str) -> Job:
    job = queries.get_job(username, name)
    access.require_details(viewer_of(request), job)
    return job
