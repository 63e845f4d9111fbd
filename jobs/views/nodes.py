"""Pages of all nodes, of one, of draining it, and of the whole cluster on a wall."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from clusters.nodes import services
from jobs.checking import run as checks
from jobs.pages.live import address
from jobs.pages.nodes import drain as drains
from jobs.pages.nodes import node as nodes
from jobs.pages.nodes import wall as walls
from jobs.pages.nodes.all import nodes_page, nodes_version
from jobs.pages.nodes.check import check_page, check_version
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin
from portal.accounts.guard import reader, signed_in
from portal.accounts.viewer import viewer_of


@require_safe
@login_required
def all_nodes(request: HttpRequest) -> HttpResponse:
    stream = address("nodes", v=nodes_version())  # before the reads
    return render(request, "clusters/nodes.html", {"nav": "nodes", "stream": stream, **nodes_page(viewer_of(request))})


@require_safe
@login_required
def node(request: HttpRequest, name: str) -> HttpResponse:
    stream = address("node", name=name, v=nodes.version(name))  # before the reads
    return render(request, "jobs/node.html", {"stream": stream, **nodes.node_page(name, viewer_of(request))})


@require_safe
@reader
def wall(request: HttpRequest) -> HttpResponse:
    stream = address("wall", v=walls.version())
    return render(request, "jobs/wall.html", {"stream": stream, **walls.wall(viewer_of(request))})


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def check(request: HttpRequest) -> HttpResponseBase:
    """What the last check of the cluster found; POST begins another one."""
    admin = require_admin(request)
    if request.method == "POST":
        if not checks.last()[1]:
            checks.order(admin)
            messages.success(request, "The check begins in a moment. This page shows what it finds.")
        return redirect(request.path)
    stream = address("check", v=check_version())
    return render(request, "jobs/check.html", {"stream": stream, **check_page()})


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def drain(request: HttpRequest, name: str) -> HttpResponseBase:
    """Field of the POST: to (draining, cordoned, active)."""
    admin = require_admin(request)
    if request.method == "POST":
        to = request.POST.get("to", "")
        services.set_node_status(admin, name, {"nodeStatus": to}, ip_of(request))
        messages.success(request, drains.DONE[to].format(name=name))
        return redirect(request.path)
    stream = address("drain", name=name, v=nodes.version(name))
    return render(request, "jobs/drain.html", {"stream": stream, **drains.drain_page(name, viewer_of(request))})
