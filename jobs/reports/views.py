"""Views of the reports."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs.reports import usage_api
from jobs.reports.forecasts_page import forecasts_page
from jobs.reports.timeline_page import read_window, timeline_page
from jobs.reports.usage_page import usage_page
from portal.accounts.guard import reader, signed_in
from portal.accounts.viewer import require_admin, viewer_of
from portal.models import User

_KNOWN = ("from", "to", "by", "vc", "username")
_TIMELINE = ("from", "to", "vc", "node", "task", "view")


@require_safe
@signed_in
def usage(request: HttpRequest) -> HttpResponse:
    """GET fields: those of the API's ``/usage``, with which the page shares them."""
    query = {name: request.GET[name] for name in _KNOWN if request.GET.get(name)}
    which, by = usage_api.read(query)
    page = usage_page(which, by, cast(User, request.user), query)
    return render(request, "jobs/usage.html", {"nav": "usage", **page})


@require_safe
@reader
def timeline(request: HttpRequest) -> HttpResponse:
    """GET fields: from, to, vc and node as the API has them; ``task`` opens the card of one; ``view=table``."""
    query = {name: request.GET[name] for name in _TIMELINE if request.GET.get(name)}
    page = timeline_page(read_window(query), viewer_of(request), query)
    return render(request, "jobs/timeline.html", {"nav": "nodes", **page})


@require_safe
@never_cache
@signed_in
def forecasts(request: HttpRequest) -> HttpResponse:
    """For admins."""
    require_admin(viewer_of(request))
    return render(request, "jobs/forecasts.html", {"nav": "forecasts", **forecasts_page()})
