"""The page of a sweep, and its stop."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from jobs import versions
from jobs.pages import live
from jobs.submitting import sweeps
from jobs.sweeps.page import page
from portal.accounts.auth import require_user
from portal.accounts.guard import reader, signed_in
from portal.accounts.viewer import Viewer, may_read_jobs, viewer_of
from portal.core import words
from portal.core.errors import Forbidden, Unauthorized
from portal.web.confirm import ask, back


@never_cache
@require_safe
@reader
def show(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    sweep = sweeps.find(username, name)
    stream = live.address("sweep", user=username, name=name, v=versions.of_pages())
    return render(request, "jobs/sweep.html", {"stream": stream, **page(sweep, viewer_of(request))})


@never_cache
@signed_in
@require_http_methods(["GET", "POST"])
def stop(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    sweep = sweeps.find(username, name)
    shown = page(sweep, viewer_of(request))["sweep"]
    if viewer_of(request).username != username and not viewer_of(request).is_admin:
        raise Forbidden(f"User {viewer_of(request).username} is not allowed to execute job {name}.")
    if request.method == "GET":
        live_ones = sum(shown.counts.get(state, 0) for state in ("WAITING", "RUNNING"))
        return ask(
            request,
            shown.url,
            nav="jobs",
            title=f"Stop sweep {name}?",
            effect=f"{words.count(live_ones, 'job')} of {shown.total} end: {shown.counts.get('RUNNING', 0)} running, "
            f"{shown.counts.get('WAITING', 0)} waiting. Work since the last checkpoint is lost.",
            verb=f"Stop {words.count(live_ones, 'job')}",
            verb_icon="player-stop",
            keep="Keep running",
        )
    done = sweeps.stop(require_user(request), sweep)
    messages.success(request, f"{words.count(done.stopped, 'job was', 'jobs were')} asked to stop.")
    return redirect(back(request, shown.url))


class LiveSweep:
    """The page of a sweep that somebody has open."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = live.as_page(request)
        self._username, self._name = request.GET.get("user", ""), request.GET.get("name", "")
        sweeps.find(self._username, self._name)

    def require(self, viewer: Viewer) -> None:
        if not may_read_jobs(viewer):
            raise Unauthorized

    def version(self) -> str:
        return versions.of_pages()

    def parts(self) -> dict[str, str]:
        shown = page(sweeps.find(self._username, self._name), viewer_of(self._request))
        return {"sweep": render_to_string("jobs/_sweep.html", shown, self._request)}


live.register("sweep", LiveSweep)
