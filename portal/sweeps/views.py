"""The page of a sweep, and its stop."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render

from base.core import words
from jobs import access, versions
from jobs.models import Job, Sweep
from jobs.submitting import sweeps
from portal.shared.confirm import ask_to_confirm, question, return_url
from portal.shared.guard import fresh_reading, own_form
from portal.shared.live.page import LivePage, address
from portal.shared.viewer import user_of, viewer_of
from portal.sweeps.page import page


@fresh_reading
def sweep_page(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    sweep = sweeps.find(username, name)
    stream = address("sweep", user=username, name=name, v=versions.of_pages())
    return render(request, "sweeps/sweep.html", {"stream": stream, **page(sweep, viewer_of(request))})


@own_form
def stop_sweep(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    sweep = sweeps.find(username, name)
    shown = page(sweep, viewer_of(request))["sweep"]
    access.require_write(viewer_of(request), Job(username=sweep.username, name=sweep.name), "execute")
    if request.method != "POST":
        live_ones = sum(shown.counts.get(state, 0) for state in ("WAITING", "RUNNING"))
        jobs, state = (
            words.count(live_ones, "job"),
            f"{shown.counts['RUNNING']} running, {shown.counts['WAITING']} waiting",
        )
        effect = f"{jobs} of {shown.total} end: {state}. Work since the last checkpoint is lost."
        asked = question(f"Stop sweep {name}?", effect, f"Stop {jobs}", "player-stop", "Keep running")
        return ask_to_confirm(request, shown.url, nav="jobs", **asked)
    done = sweeps.stop(user_of(request), sweep)
    messages.success(request, f"{words.count(len(done.stopped), 'job was', 'jobs were')} asked to stop.")
    return redirect(return_url(request, shown.url))


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
