"""What the page of a terminal shows: the tasks that can be entered, and the terminals that its reader has open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings

from base.accounts.viewer import Viewer
from base.core import words
from jobs import access, queries
from jobs.models import Job, Task
from jobs.terminal import place, records
from portal.job import tabs
from portal.job.live import LiveJob


def context(job: Job, viewer: Viewer, params: dict[str, str]) -> dict[str, Any]:
    """The context of terminal/terminal.html. ``?task=worker-0`` names the task; without it, it is the first."""
    return {**tabs.context(job, viewer, "terminal", params), **_terminals(job, viewer, params)}


def _terminals(job: Job, viewer: Viewer, params: Mapping[str, str]) -> dict[str, Any]:
    if not access.may_enter(viewer, job):
        return {"may_enter": False}
    places = place.running(job)
    chosen = next((each for each in places if each.label == params.get("task")), places[0] if places else None)
    return {
        "may_enter": True,
        "places": places,
        "chosen": chosen,
        "address": _address(chosen) if chosen else "",
        "until": queries.held_until(chosen) if chosen and chosen.held_at else None,
        "ssh": _ssh(chosen) if chosen else "",
        "terminals": list(records.open_terminals(viewer.username)),
        "most": settings.TERMINALS,
        "idle": words.duration(settings.TERMINAL_IDLE),
        "is_window": "window" in params,
    }


def _address(chosen: Task) -> str:
    """The address of its WebSocket."""
    role, _, index = chosen.label.rpartition("-")
    path = "/".join(quote(part, safe="") for part in (chosen.job.username, chosen.job.name, role, index))
    return f"/terminal/{path}?{urlencode({'attempt': chosen.attempt.number})}"


def _ssh(chosen: Task) -> str:
    """The command by which one logs in instead; empty without a port for it."""
    ports = chosen.ports.get("ssh")
    return f"ssh -p {ports[0]} root@{chosen.address}" if ports and chosen.address else ""


class LiveTerminals(LiveJob):
    def _shown(self, job: Job) -> tuple[dict[str, Any], dict[str, str]]:
        _, templates = super()._shown(job)
        page = context(job, self.viewer, self.request.GET.dict())
        return page, templates | ({"job-terminals": "terminal/_terminals.html"} if page.get("chosen") else {})
