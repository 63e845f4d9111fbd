"""What the page of what-if shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from base.core.errors import BadRequest
from jobs.forecast.play import Spread
from jobs.waiting.queue import WaitingJob
from jobs.what_if.answer import Effects, VcThen, WhatIfResult, what_if
from jobs.what_if.asked import BECOMES, BOTH, CEILING, ENDS, GUARANTEE, AskedChange, NodeBecomes, VcGets, read_all
from jobs.what_if.compare import Effect, JobImpact, moved
from portal.shared.jobs.rows import job_url

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
class SpreadBar:
    """A spread in a figure whose width is the time shown."""

    x: str
    width: str
    middle: str


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


def what_if_address(changes: Sequence[str]) -> str:
    return f"{URL}?{urlencode([('change', each) for each in changes])}" if changes else URL


def what_if_page(admin: Viewer, texts: Sequence[str]) -> dict[str, Any]:
    """The context of policy/policy.html. A change that cannot be is told in ``error``, and nothing is played then."""
    try:
        changes, error = read_all(texts), ""
        result = what_if(admin, changes)
    except BadRequest as refused:
        error = refused.message
        result, changes = what_if(admin, []), []
    return {
        "nav": "vcs",
        "error": error,
        "changes": _changes(texts),
        "texts": texts,
        "waiting": result.waiting,
        "running": result.running,
        "at": timezone.localtime(result.at),
        "is_played": bool(changes),
        "lines": [_line(one, result) for one in result.lines()],
        "rows": _rows(result),
        "more": max(0, len(result.felt) - MOST_ROWS),
        "until": _until(result),
        "evicted": [
            (one, job_url(one.job.username, one.job.name), _ran(one.job, result.at)) for one in result.after.evicted
        ],
        "reservations": moved(result.before, result.after),
        "vcs": _vcs(result.vcs()),
        "left_out": result.left_out,
        "forms": _forms(changes),
        "choices": _choices(result),
        "json": f"/api/v1/cluster/what-if{what_if_address(texts).removeprefix(URL)}",
    }


def _changes(texts: Sequence[str]) -> list[tuple[str, str]]:
    """(sentence, the address without it); of one that cannot be read its text."""
    changes = []
    for at, text in enumerate(texts):
        try:
            [change] = read_all([text])
            says = change.sentence
        except BadRequest:
            says = text
        changes.append((says, what_if_address([*texts[:at], *texts[at + 1 :]])))
    return changes


def _forms(changes: Sequence[AskedChange]) -> list[tuple[str, str]]:
    """(name, address) of the forms with which the changes are made for real."""
    forms: dict[str, str] = {}
    for change in changes:
        if isinstance(change, VcGets):
            forms[f"Edit {change.vc}"] = f"/vcs/{quote(change.vc)}"
        elif isinstance(change, NodeBecomes) and change.to == "drain":
            forms[f"Drain {change.node}"] = f"/nodes/{quote(change.node)}/drain"
    return list(forms.items())


def _choices(result: WhatIfResult) -> dict[str, Any]:
    """What the small forms offer."""
    picture = result.before.situation
    return {
        "vcs": sorted(picture.rights),
        "nodes": [node.name for node in picture.scene.nodes],
        "parts": _PARTS,
        "becomes": BECOMES,
        "ends": ENDS,
    }


def _line(effects: Effects, result: WhatIfResult) -> dict[str, Any]:
    wait = words.NOTHING if effects.wait is None else words.duration(effects.wait)
    return {
        "line": effects,
        "sooner": None if effects.earlier is None else effects.starts_now + effects.earlier,
        "wait": wait,
    }


def _rows(result: WhatIfResult) -> list[dict[str, Any]]:
    end = _until(result)
    return [_row(felt, timezone.localtime(result.at), end) for felt in result.felt[:MOST_ROWS]]


def _until(result: WhatIfResult) -> datetime:
    """Where the figures end."""
    spreads = [each for felt in result.felt[:MOST_ROWS] for each in (felt.before, felt.after) if each is not None]
    return max([each.p90 for each in spreads], default=result.at) + timedelta(minutes=10)


def _row(felt: JobImpact[WaitingJob], now: datetime, end: datetime) -> dict[str, Any]:
    css, effect = _EFFECTS[felt.effect]
    before = "runs" if felt.effect is Effect.EVICTED else _when(felt.before, felt.starts_before, now)
    after = _when(felt.after, felt.starts_after, now)
    return {
        "job": felt.job,
        "url": job_url(felt.job.username, felt.job.name),
        "css": css,
        "effect": effect,
        "before": before,
        "after": after,
        "bars": [("busy", 2, 3, 11, _bar(felt.before, now, end)), ("mine", 12, 13, 21, _bar(felt.after, now, end))],
    }


def _when(spread: Spread | None, starts: bool, now: datetime) -> str:
    if starts:
        return "at once"
    return "unknown" if spread is None else words.clock(spread.p50, now)


def _bar(spread: Spread | None, now: datetime, end: datetime) -> SpreadBar | None:
    if spread is None:
        return None
    whole = (end - now).total_seconds()
    p10, p50, p90 = (100 * min(1.0, max(0.0, (each - now).total_seconds() / whole)) for each in spread)
    return SpreadBar(f"{p10:.2f}%", f"{max(0.6, p90 - p10):.2f}%", f"{p50:.2f}%")


def _ran(job: WaitingJob, now: datetime) -> str:
    return words.duration((now - (job.started_at or now)).total_seconds())


def _vcs(rows: Sequence[VcThen]) -> list[dict[str, Any]]:
    """Amounts are percents of the widest bar."""
    both = [each for row in rows for each in (row.before, row.after)]
    widest = max((max(each.guarantee, each.used, each.ceiling or 0) for each in both), default=0) or 1

    def percent(number: float) -> str:
        return f"{100 * min(1.0, number / widest):.1f}%"

    bars = []
    for row in rows:
        now, then = f"{row.before.guarantee:g}", f"{row.after.guarantee:g}"
        most = "no ceiling" if row.after.ceiling is None else f"at most {row.after.ceiling:g}"
        bars.append(
            {
                "name": row.vc,
                "small": f"{now if now == then else f'{now} → {then}'}, {most}, uses {row.after.used:g}",
                "says": f"{row.vc}: guaranteed {now}, then {then} GPUs, {most}, uses {row.after.used:g}",
                "track": percent(widest if row.after.ceiling is None else row.after.ceiling),
                "used": percent(row.after.used),
                "before": percent(row.before.guarantee),
                "after": percent(row.after.guarantee),
            }
        )
    return bars
