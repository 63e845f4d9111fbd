"""The page of a sweep, and its stop."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from base.core import words
from base.core.errors import Forbidden
from jobs import versions
from jobs.models import Sweep
from jobs.submitting import sweeps
from portal.shared.confirm import ask, back
from portal.shared.guard import own_form, reading
from portal.shared.live.page import LivePage, address
from portal.shared.viewer import user_of, viewer_of
from portal.sweeps.page import page


@never_cache
@reading
def sweep_page(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    sweep = sweeps.find(username, name)
    stream = address("sweep", user=username, name=name, v=versions.of_pages())
    return render(request, "sweeps/sweep.html", {"stream": stream, **page(sweep, viewer_of(request))})


@own_form
def stop_sweep(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    sweep = sweeps.find(username, name)
    shown = page(sweep, viewer_of(request))["sweep"]
    if viewer_of(request).username != username and not viewer_of(request).is_admin:
        raise Forbidden(f"User {viewer_of(request).username} is not allowed to execute job {name}.")
    if request.method != "POST":
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
    done = sweeps.stop(user_of(request), sweep)
    messages.success(request, f"{words.count(done.stopped, 'job was', 'jobs were')} asked to stop.")
    return redirect(back(request, shown.url))


class LiveSweep(LivePage):
    """The page of a sweep that somebody has open."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self._find()

    def version(self) -> str:
        return versions.of_pages()

    def parts(self) -> dict[str, str]:
        return {"sweep": self.drawn("sweeps/_sweep.html", page(self._find(), self.viewer))}

    def _find(self) -> Sweep:
        return sweeps.find(self.asked.get("user", ""), self.asked.get("name", ""))
