"""Views of what-if and replay."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render

from base.accounts.viewer import Viewer, require
from base.core.errors import BadRequest
from base.core.words import whole
from base.roles import Permission
from jobs.replay import run
from portal.policy import replay_page
from portal.policy.what_if_page import composed, what_if_address, what_if_page
from portal.shared.guard import fresh_page, own_form
from portal.shared.live.page import LivePage, address
from portal.shared.viewer import all_reader_of


@fresh_page
def policy(request: HttpRequest) -> HttpResponseBase:
    """GET fields: change, as often as there are changes to try; those of a small form, which becomes one more."""
    admin = all_reader_of(request)
    texts = [text for text in request.GET.getlist("change") if text.strip()]
    if more := composed(request.GET.dict()):
        return redirect(what_if_address([*texts, more]))
    page = what_if_page(admin, texts)
    return render(request, "policy/policy.html", page, status=400 if page["error"] else 200)


@own_form
def replays(request: HttpRequest) -> HttpResponseBase:
    """Fields of the POST: day (2026-11-20), policy, nodes (how many times as many), gpus and vc."""
    admin = all_reader_of(request)
    if request.method != "POST":
        return render(request, "policy/replays.html", replay_page.replays_page(admin, {}))
    fields = request.POST.dict()
    try:
        row = run.ask(admin, replay_page.asked_of(fields))
    except BadRequest as error:
        page = replay_page.replays_page(admin, fields, error.message)
        return render(request, "policy/replays.html", page, status=error.status)
    return redirect(f"{replay_page.URL}/{row.pk}")


@fresh_page
def replay(request: HttpRequest, id: int) -> HttpResponseBase:
    admin = all_reader_of(request)
    stream = address("replay", id=id, v=replay_page.version(admin, id))
    return render(request, "policy/replay.html", {"stream": stream, **replay_page.replay_page(admin, id)})


class LiveReplay(LivePage):
    """How far a replay is, and then its result. It is for admins and auditors."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self._admin, self._id = all_reader_of(request), whole(self.asked.get("id")) or 0
        run.find(self._admin, self._id)

    def require(self, viewer: Viewer) -> object:
        return require(viewer, Permission.READ_ALL)

    def version(self) -> str:
        return replay_page.version(self._admin, self._id)

    def parts(self) -> dict[str, str]:
        return {"replay": self.drawn("policy/_replay.html", replay_page.replay_page(self._admin, self._id))}
