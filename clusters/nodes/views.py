"""The page of nodes, for every user. Nodes are changed by admins, with the API."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from clusters.nodes.pages import nodes_page, nodes_version


@require_safe
@login_required
def nodes(request: HttpRequest) -> HttpResponse:
    stream = f"/stream/page?{urlencode({'page': 'nodes', 'v': nodes_version()})}"  # before the reads
    return render(request, "clusters/nodes.html", {"nav": "nodes", "stream": stream, **nodes_page()})
