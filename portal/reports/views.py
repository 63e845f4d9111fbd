"""Views of the reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from base.models import User
from portal.reports.api import read
from portal.reports.forecasts_page import forecasts_page
from portal.reports.timeline_page import read_window, timeline_page
from portal.reports.usage_page import usage_page
from portal.shared.guard import fresh_page, own_page, reading
from portal.shared.viewer import all_reader_of, viewer_of

_KNOWN = ("from", "to", "by", "vc", "username")
_TIMELINE = ("from", "to", "vc", "node", "task", "view")


@own_page
def usage(request: HttpRequest) -> HttpResponse:
    """GET fields: those of the API's ``/usage``, with which the page shares them."""
    query = {name: request.GET[name] for name in _KNOWN if request.GET.get(name)}
    which, by = read(query)
    page = usage_page(which, by, cast(User, request.user), query)
    return render(request, "reports/usage.html", {"nav": "usage", "odd": _odd(request, _KNOWN), **page})


@reading
def timeline(request: HttpRequest) -> HttpResponse:
    """GET fields: from, to, vc and node as the API has them; ``task`` opens the card of one; ``view=table``."""
    query = {name: request.GET[name] for name in _TIMELINE if request.GET.get(name)}
    page = timeline_page(read_window(query), viewer_of(request), query)
    return render(request, "reports/timeline.html", {"nav": "nodes", "odd": _odd(request, _TIMELINE), **page})


@fresh_page
def forecasts(request: HttpRequest) -> HttpResponse:
    """The page is for admins and auditors."""
    all_reader_of(request)
    return render(request, "reports/forecasts.html", {"nav": "forecasts", **forecasts_page()})


def _odd(request: HttpRequest, known: Sequence[str]) -> list[str]:
    """The parameters of the address that the page does not know, for it to say so."""
    return [name for name in request.GET if name not in known]
