"""``/healthz``: reports whether the database, the file store and the portal's processes work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from base.files.store.state import is_store_up, store_fault
from base.wakes import processes
from portal.hosts import hosts
from portal.shared.api import repeated

_MOST_NAMED = 20  # nodes or threads in one answer
_NEVER_KEPT = {"Cache-Control": "max-age=0, no-cache, no-store, must-revalidate, private"}
_FIRST_LOOK = 0.5  # seconds that /healthz waits for the store, once in a process's life


@csrf_exempt
def healthz(request: HttpRequest) -> HttpResponse:
    """200 when this process and the database answer. The body also has when the others were last seen. Clients that ask
    for text get the line that v1's front server had there."""
    fine, told = _told()
    if fine and _wants_text(request):
        return HttpResponse("Pylon ready.", content_type="text/plain", headers=_NEVER_KEPT)
    repeated.with_body(request, _body)
    return HttpResponse(told, "application/json", 200 if fine else 503, headers=_NEVER_KEPT)


def _body() -> bytes | None:
    fine, told = _told()
    return told if fine else None


def _told() -> tuple[bool, bytes]:
    fine, parts = report()
    return fine, json.dumps({**parts, "version": settings.VERSION, "instance": settings.INSTANCE}).encode()


def _wants_text(request: HttpRequest) -> bool:
    if request.META.get("HTTP_ACCEPT", "*/*") in ("*/*", "application/json"):  # what monitors say costs no reading
        return False
    return request.get_preferred_type(["application/json", "text/plain"]) == "text/plain"


def report() -> tuple[bool, dict[str, Any]]:
    """What /healthz says: whether the database and the file store answer, and the ages in seconds."""
    store = is_store_up(_FIRST_LOOK)
    try:
        seen = processes.beats()
    except DatabaseError:
        return False, {"status": "down", "database": False, "store": store}
    scheduler, troubled = _of_scheduler(seen.reports.get("scheduler"), seen.ages["scheduler"] or 0.0)
    live = all(age is not None and age < processes.LATE for age in seen.ages.values())
    room = processes.free_bytes()[0] >= hosts.FULL
    fine = store is not False and room and not troubled
    status = "ok" if fine and live else "starting" if fine and _is_starting() else "degraded"
    rounded = {name: None if age is None else round(age, 1) for name, age in seen.ages.items()}
    told = {"storeReason": store_fault()} if store is False else {}
    alive = sum(age < processes.LATE for age in seen.hosts)
    here = {"room": room, "hosts": {"alive": alive, "silent": len(seen.hosts) - alive}}
    parts = {"status": status, "database": True, "store": store, **told, **here}
    return True, {**parts, "secondsSinceSeen": rounded, **scheduler}


def _is_starting() -> bool:
    """Whether the others of this portal may still be on their way. A web process that is started anew beside them does
    not begin again: it hides nobody who is down."""
    return processes.portal_age() < processes.LATE


def _of_scheduler(report: Mapping[str, Any] | None, age: float) -> tuple[dict[str, Any], bool]:
    """The scheduler's report about its parts, and whether something is wrong there. ``age``: seconds since the
    report."""
    if report is None:
        return {}, False
    said = processes.Report(**report)
    oldest = None if said.oldest_look is None else round(said.oldest_look + age, 1)
    old = {node: round(seconds + age, 1) for node, seconds in sorted(said.old_looks.items())[:_MOST_NAMED]}
    told = {
        "threads": {"number": said.threads, "late": list(said.late_threads)[:_MOST_NAMED]},
        "looks": {"oldestSeconds": oldest, "tooOld": old},
        "invariants": {"healed": said.healed, "broken": said.broken},
    }
    return told, bool(said.late_threads or said.old_looks or said.broken)
