"""The page of the hosts of this portal."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from portal.accounts.guard import signed_in
from portal.accounts.viewer import require_admin, viewer_of
from portal.overview import hosts


@require_safe
@never_cache
@signed_in
def show(request: HttpRequest) -> HttpResponse:
    """For admins."""
    require_admin(viewer_of(request))
    found = hosts.hosts()
    page = {"hosts": found, "warnings": hosts.warnings(found), "low": hosts.LOW}
    return render(request, "portal/hosts.html", {"nav": "nodes", **page})
