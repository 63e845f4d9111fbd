"""What the page of a terminal shows: the tasks that can be entered, and the terminals that its reader has open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings

from jobs import access, queries
from jobs.models import Job
from jobs.terminal import place, records
from jobs.terminal.place import Place
from portal.accounts.viewer import Viewer
from portal.core import words


def page(job: Job, viewer: Viewer, params: Mapping[str, str]) -> dict[str, Any]:
    """``?task=worker-0`` names the task; without it, it is the first."""
    if not access.may_enter(viewer, job):
        return {"may_enter": False}
    places = place.running(job)
    chosen = next((one for one in places if one.label == params.get("task")), places[0] if places else None)
    return {
        "may_enter": True,
        "places": places,
        "chosen": chosen,
        "address": _address(chosen) if chosen else "",
        "until": _held_until(chosen) if chosen else None,
        "ssh": _ssh(chosen) if chosen else "",
        "terminals": list(records.open_terminals(viewer.username)),
        "most": settings.TERMINALS,
        "idle": words.duration(settings.TERMINAL_IDLE),
        "is_window": "window" in params,
    }


def _address(chosen: Place) -> str:
    """Of its WebSocket."""
    role, _, index = chosen.label.rpartition("-")
    path = "/".join(quote(part, safe="") for part in (chosen.job.username, chosen.job.name, role, index))
    return f"/terminal/{path}?{urlencode({'attempt': chosen.attempt})}"


def _held_until(chosen: Place) -> Any:
    return queries.held_until(chosen.task) if chosen.held else None


def _ssh(chosen: Place) -> str:
    """The command by which one logs in instead; empty without a port for it."""
    ports = chosen.task.ports.get("ssh")
    return f"ssh -p {ports[0]} root@{chosen.task.address}" if ports and chosen.task.address else ""
