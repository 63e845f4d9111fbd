"""What an admin asks for: which past day is played again, under which policy, on which cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from jobs.history import window as windows
from jobs.history.window import Window
from jobs.planning.replay.easy import Easy
from jobs.planning.replay.policies import Backfill, Fifo, Longshore, Policy
from jobs.planning.what_if.asked import JobEnds, JobHas, read_all
from portal.core.errors import BadRequest

POLICIES: Mapping[str, type[Policy]] = {"longshore": Longshore, "fifo": Fifo, "backfill": Backfill, "easy": Easy}
LONGEST = timedelta(days=7)
MOST_TIMES = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """``nodes``: how many times as many there are. ``changes`` are texts of what-if, of virtual clusters and nodes."""

    window: Window
    policy: str
    nodes: float = 1.0
    changes: tuple[str, ...] = ()


def read_asked(data: Mapping[str, Any]) -> Asked:
    """Of ``{"from", "to", "policy", "nodes", "changes"}``, as texts or as JSON has them. Raises BadRequest with a
    sentence."""
    texts = {name: _text(name, data.get(name)) for name in ("from", "to", "policy")}
    now = timezone.localtime()
    span = windows.read(texts["from"], texts["to"], now, span=timedelta(days=1), longest=LONGEST)
    if span.end > span.now:
        span = replace(span, end=span.now)
    if span.begin >= span.end:
        raise BadRequest("This day has not begun: only what happened can be played again.")
    policy = texts["policy"] or "longshore"
    if policy not in POLICIES:
        raise BadRequest(f"policy must be one of {', '.join(POLICIES)}.")
    changes = data.get("changes") or ()
    if not isinstance(changes, list | tuple) or not all(isinstance(each, str) for each in changes):
        raise BadRequest("changes must be a list of texts.")
    if any(isinstance(each, JobEnds | JobHas) for each in read_all(list(changes))):
        raise BadRequest("Only changes of virtual clusters and nodes can be played, none of jobs.")
    return Asked(span, policy, _times(data.get("nodes", 1)), tuple(changes))


def _text(name: str, value: object) -> str:
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        raise BadRequest(f"{name} must be a text or a number.")
    return "" if value is None else str(value)


def _times(value: object) -> float:
    try:
        number = float(_text("nodes", value) or 1) if not isinstance(value, float) else value
    except ValueError:
        number = 0.0
    if not 0 < number <= MOST_TIMES:
        raise BadRequest(f"nodes must be a number above 0 and up to {MOST_TIMES:g}: how many times as many there are.")
    return number
