"""Views of what-if and replay."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from jobs.pages import live
from jobs.policy import replay_page
from jobs.policy.what_if_page import address, composed, what_if_page
from jobs.replay import run
from jobs.replay.asked import read_asked
from portal.accounts.auth import require_admin
from portal.accounts.guard import signed_in
from portal.core.errors import BadRequest


@never_cache
@require_safe
@signed_in
def policy(request: HttpRequest) -> HttpResponseBase:
    """GET fields: change, as often as there are changes to try; those of a small form, which becomes one more."""
    admin = require_admin(request)
    texts = [text for text in request.GET.getlist("change") if text.strip()]
    if more := composed(request.GET.dict()):
        return redirect(address([*texts, more]))
    page = what_if_page(admin, texts)
    return render(request, "jobs/policy.html", page, status=400 if page["error"] else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def replays(request: HttpRequest) -> HttpResponseBase:
    """Fields of the POST: day (2026-11-20), policy, nodes (how many times as many), gpus and vc."""
    admin = require_admin(request)
    if request.method != "POST":
        return render(request, "jobs/replays.html", replay_page.replays_page(admin, {}))
    fields = request.POST.dict()
    try:
        row = run.ask(admin, read_asked(replay_page.asked_of(fields)))
    except BadRequest as error:
        page = replay_page.replays_page(admin, fields, error.message)
        return render(request, "jobs/replays.html", page, status=error.status)
    return redirect(f"{replay_page.URL}/{row.pk}")


@never_cache
@require_safe
@signed_in
def replay(request: HttpRequest, id: int) -> HttpResponseBase:
    admin = require_admin(request)
    stream = live.address("replay", id=id, v=replay_page.version(admin, id))
    return render(request, "jobs/replay.html", {"stream": stream, **replay_page.replay_page(admin, id)})


class LiveReplay(live.ForAdmins):
    """How far a replay is, and then its result."""

    def __init__(self, request: HttpRequest) -> None:
        self._admin, self._request = require_admin(request), live.as_page(request)
        text = request.GET.get("id", "")
        self._id = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
        run.find(self._admin, self._id)

    def version(self) -> str:
        return replay_page.version(self._admin, self._id)

    def parts(self) -> dict[str, str]:
        page = replay_page.replay_page(self._admin, self._id)
        return {"replay": render_to_string("jobs/_replay.html", page, self._request)}


live.register("replay", LiveReplay)
