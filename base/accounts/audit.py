"""The record of who did what to which object, from where and by which way. portal.audit shows it.

What a request does is recorded with its address, and with the token by which it came: the request of this thread is
known here, so no service has to hand it down. Without a request it was the portal itself, or a command in a shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from django.db import DatabaseError
from django.utils import timezone

from base.core.bulk import insert_all
from base.models import AuditEvent
from base.wakes import wake

REFUSED = "refused"
MOST_REFUSED = 30  # rows about refusals of one user in REFUSED_IN: a script that tries again and again fills no table
REFUSED_IN = timedelta(hours=1)
Meta = Mapping[str, Any]  # of a request: variables as CGI has them
WAY = "longshore.way"  # of a request's META: by which token it came
_asking: ContextVar[Meta | None] = ContextVar("asking", default=None)


def asked_by(request: Meta | None) -> None:
    """Whatever is recorded in this thread from now on is done by the request with this META; None: by the portal
    itself."""
    _asking.set(request)


def record(
    actor: str,
    action: str,
    target: str | Iterable[str] = "",
    data: Mapping[str, Any] | None = None,
    *,
    ip: str | None = None,
    way: str | None = None,
) -> None:
    """Write one row, or one for each of several targets. ``ip`` and ``way`` are those of the request of this thread:
    only who serves without Django's middleware (a WebSocket, WebHDFS) gives them. Never put a password or a token in
    ``data``."""
    request = _asking.get()
    said = {
        "actor": actor,
        "action": action,
        "ip": ip or (request or {}).get("REMOTE_ADDR") or None,
        "way": _way(request) if way is None else way,
        "data": dict(data or {}),
    }
    insert_all(AuditEvent, [{"object": one[:200], **said} for one in ([target] if isinstance(target, str) else target)])


def changed(actor: str, action: str, target: str, data: Mapping[str, Any]) -> None:
    """Record a change of what jobs run on: passes and pages have to see it at once."""
    record(actor, action, target, data)
    wake.notify("scheduler", "pages")


def refused(actor: str, path: str, method: str, *, ip: str | None = None, way: str | None = None) -> None:
    """Record that the actor asked for something that they may not do or see: an address once in REFUSED_IN, and not
    more than MOST_REFUSED of them."""
    since = timezone.now() - REFUSED_IN
    rows = AuditEvent.objects.filter(actor=actor, action=REFUSED, at__gt=since).order_by("-id")
    path = path[:200]
    try:
        lately = list(rows.values_list("object", flat=True)[:MOST_REFUSED])
        if path not in lately and len(lately) < MOST_REFUSED:
            record(actor, REFUSED, path, {"method": method}, ip=ip, way=way)
    except DatabaseError:  # the answer is the refusal, whether or not it can be recorded
        pass


def _way(request: Meta | None) -> str:
    if request is None:
        return "portal"
    return str(request.get(WAY) or ("API" if "/api/" in request["PATH_INFO"].lower() else "page"))[:200]
