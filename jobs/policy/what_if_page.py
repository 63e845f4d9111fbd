"""What the page of what-if shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django.utils import timezone

from jobs.forecast.what_if import Line, VcThen, WhatIf, what_if
from jobs.pages.rows import job_url
from jobs.planning.forecast.play import Spread
from jobs.planning.forecast.words import clock
from jobs.planning.what_if.asked import BECOMES, BOTH, CEILING, ENDS, GUARANTEE, Asked, NodeBecomes, VcGets, read_all
from jobs.planning.what_if.compare import Effect, Felt
from jobs.scheduling.queue import Queued
from portal.accounts.viewer import Viewer
from portal.core import words
from portal.core.errors import BadRequest

URL = "/policy"
MOST_ROWS = 100  # jobs that feel it
_EFFECTS = {
    Effect.NOW: ("ls-yes", "starts at once"),
    Effect.EARLIER: ("ls-yes", "sooner"),
    Effect.LATER: ("ls-warn", "later"),
    Effect.EVICTED: ("ls-no", "is evicted"),
}
_PARTS = ((BOTH, "guaranteed and at most"), (GUARANTEE, "guaranteed"), (CEILING, "at most"))


@dataclass(frozen=True, slots=True)
class Bar:
    """A spread in a figure whose width is the time shown."""

    x: str
    width: str
    middle: str


@dataclass(frozen=True, slots=True)
class FeltRow:
    name: str
    url: str
    vc: str
    css: str
    effect: str
    before: str
    after: str
    says: str
    now_bar: Bar | None
    then_bar: Bar | None


@dataclass(frozen=True, slots=True)
class VcRow:
    """Percents of the widest bar."""

    name: str
    small: str
    says: str
    track: str
    used: str
    before: str
    after: str


def composed(query: Mapping[str, str]) -> str:
    """The change that one of the small forms asks for, as a text; empty where none was sent."""
    value = {name: query.get(name, "").strip() for name in ("add", "name", "gpus", "of", "becomes", "type", "priority")}
    name = value["name"]
    if value["add"] == "vc":
        number = value["gpus"] if value["gpus"].startswith("-") else f"+{value['gpus'].lstrip('+')}"
        return f"vc:{name}:{value['of'] or BOTH}:{number}"
    if value["add"] == "node":
        return f"node:{name}:{value['becomes']}"
    if value["add"] == "new":
        return f"node:{name}:add:{value['gpus']}:{value['type']}".rstrip(":")
    if value["add"] == "job":
        does = f"priority:{value['priority']}" if value["becomes"] == "priority" else value["becomes"]
        return f"job:{name.replace('/', '~', 1)}:{does}"
    return ""


def address(changes: Sequence[str]) -> str:
    return f"{URL}?{urlencode([('change', each) for each in changes])}" if changes else URL


def what_if_page(admin: Viewer, texts: Sequence[str]) -> dict[str, Any]:
    """The context of jobs/policy.html. A change that cannot be is told in ``error``, and nothing is played then."""
    try:
        changes, error = read_all(texts), ""
        found = what_if(admin, changes)
    except BadRequest as refused:
        error = refused.message
        found, changes = what_if(admin, []), []
    return {
        "nav": "vcs",
        "error": error,
        "changes": _changes(texts),
        "texts": texts,
        "waiting": found.waiting,
        "running": found.running,
        "at": timezone.localtime(found.at),
        "is_played": bool(changes),
        "lines": [_line(one, found) for one in found.lines()],
        "rows": _rows(found),
        "more": max(0, len(found.felt) - MOST_ROWS),
        "until": _until(found),
        "evicted": [(one, job_url(one.job.username, one.job.name), _ran(one.job, found.at)) for one in found.evicted],
        "reservations": found.reservations,
        "vcs": _vcs(found.vcs()),
        "left_out": found.left_out,
        "forms": _forms(changes),
        "choices": _choices(found),
        "json": f"/api/v1/cluster/what-if{address(texts).removeprefix(URL)}",
    }


def _changes(texts: Sequence[str]) -> list[tuple[str, str]]:
    """(sentence, the address without it); of one that cannot be read its text."""
    found = []
    for at, text in enumerate(texts):
        try:
            [one] = read_all([text])
            says = one.sentence
        except BadRequest:
            says = text
        found.append((says, address([*texts[:at], *texts[at + 1 :]])))
    return found


def _forms(changes: Sequence[Asked]) -> list[tuple[str, str]]:
    """(name, address) of the forms with which the changes are made for real."""
    found: dict[str, str] = {}
    for one in changes:
        if isinstance(one, VcGets):
            found[f"Edit {one.vc}"] = f"/vcs/{quote(one.vc)}"
        elif isinstance(one, NodeBecomes) and one.to == "drain":
            found[f"Drain {one.node}"] = f"/nodes/{quote(one.node)}/drain"
    return list(found.items())


def _choices(found: WhatIf) -> dict[str, Any]:
    """What the small forms offer."""
    picture = found.before.picture
    return {
        "vcs": sorted(picture.rights),
        "nodes": [node.name for node in picture.scene.nodes],
        "parts": _PARTS,
        "becomes": BECOMES,
        "ends": ENDS,
    }


def _line(one: Line, found: WhatIf) -> dict[str, Any]:
    wait = words.NOTHING if one.wait is None else words.duration(one.wait)
    return {"line": one, "sooner": None if one.earlier is None else one.starts_now + one.earlier, "wait": wait}


def _rows(found: WhatIf) -> list[FeltRow]:
    end = _until(found)
    return [_row(one, timezone.localtime(found.at), end) for one in found.felt[:MOST_ROWS]]


def _until(found: WhatIf) -> datetime:
    """Where the figures end."""
    spreads = [each for one in found.felt[:MOST_ROWS] for each in (one.before, one.after) if each is not None]
    return max([each.p90 for each in spreads], default=found.at) + timedelta(minutes=10)


def _row(one: Felt[Queued], now: datetime, end: datetime) -> FeltRow:
    css, effect = _EFFECTS[one.effect]
    before = "runs" if one.effect is Effect.EVICTED else _when(one.before, one.starts_before, now)
    after = _when(one.after, one.starts_after, now)
    job = one.job
    bars = _bar(one.before, now, end), _bar(one.after, now, end)
    return FeltRow(
        job.title,
        job_url(job.username, job.name),
        job.vc,
        css,
        effect,
        before,
        after,
        f"now {before}, then {after}",
        *bars,
    )


def _when(spread: Spread | None, starts: bool, now: datetime) -> str:
    if starts:
        return "at once"
    return "unknown" if spread is None else clock(spread.p50.astimezone(now.tzinfo), now)


def _bar(spread: Spread | None, now: datetime, end: datetime) -> Bar | None:
    if spread is None:
        return None
    whole = (end - now).total_seconds()
    p10, p50, p90 = (100 * min(1.0, max(0.0, (each - now).total_seconds() / whole)) for each in spread)
    return Bar(f"{p10:.2f}%", f"{max(0.6, p90 - p10):.2f}%", f"{p50:.2f}%")


def _ran(job: Queued, now: datetime) -> str:
    return words.duration((now - (job.started_at or now)).total_seconds())


def _vcs(rows: Sequence[VcThen]) -> list[VcRow]:
    widest = max((max(*one.guarantee, *one.used, *(each or 0 for each in one.ceiling)) for one in rows), default=0) or 1

    def percent(number: float) -> str:
        return f"{100 * min(1.0, number / widest):.1f}%"

    found = []
    for one in rows:
        now, then = (f"{each:g}" for each in one.guarantee)
        gets = now if now == then else f"{now} → {then}"
        most = "no ceiling" if one.ceiling[1] is None else f"at most {one.ceiling[1]:g}"
        small = f"{gets}, {most}, uses {one.used[1]:g}"
        track = widest if one.ceiling[1] is None else one.ceiling[1]
        says = f"{one.name}: guaranteed {now}, then {then} GPUs, {most}, uses {one.used[1]:g}"
        marks = percent(one.guarantee[0]), percent(one.guarantee[1])
        found.append(VcRow(one.name, small, says, percent(track), percent(one.used[1]), *marks))
    return found
