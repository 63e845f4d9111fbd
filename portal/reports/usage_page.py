"""What the page of usage shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from base.accounts.viewer import Viewer
from base.core import words
from base.core.values import local_time
from base.models import User
from clusters.users.queries import load_user
from jobs.history import usage, window
from jobs.history.usage import HOUR, OTHERS, Filter, UsageSum
from portal.reports import drawing
from portal.shared.look.strip import StripFigure

_COLOURS, _REST = ("c1", "c2", "c3", "c4"), "c0"  # with more series than colours the rest is one
_RANGES = (("7d", "7 days"), ("30d", "30 days"), ("90d", "90 days"), ("365d", "Year"))
_NAMES = {"user": "user", "vc": "virtual cluster", "state": "state", "day": "day"}
_OUTCOMES = {"EVICTED": "Evicted", "LOST": "Lost with a node"}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A line of the table. ``url`` leads to that line alone."""

    name: str
    gpu_hours: str
    cpu_hours: str
    share: float
    wasted: float
    waited_mean: str
    waited_p95: str
    jobs: int
    url: str = ""


def usage_page(which: Filter, by: str, viewer: User, query: dict[str, str]) -> dict[str, Any]:
    """Return the context of the template. Raises Forbidden."""
    lines, total = usage.report(which, by, viewer)
    stacked = by if by != "day" else "vc"
    latest = None if total.jobs else usage.last_use(viewer)
    user = load_user(viewer.username)
    span = which.window
    return {
        "by": by,
        "by_name": _NAMES[by],
        "ways": [(way, name.capitalize(), _address(query, by=way)) for way, name in _NAMES.items()],
        "ranges": [(text, name, _address(query, **{"from": text, "to": ""})) for text, name in _RANGES],
        "range": query.get("from", "30d") if not query.get("to") else "",
        "begin": local_time(span.begin, span.zone),
        "end": local_time(span.end - 1, span.zone),
        "vc": which.vc,
        "vcs": user.vcs if user is not None else (),
        "username": which.username,
        "cells": _sums(total),
        "wastes": _wastes(total),
        "chart": _chart(which, stacked, viewer),
        "stacked": _NAMES[stacked],
        "rows": [_row(line, by, which, total, query) for line in lines],
        "total": _row(total, "", which, total, query),
        "latest": None if latest is None else local_time(latest, span.zone),
        "latest_url": "" if latest is None else _day_url(query, local_time(latest, span.zone)),
        "csv": f"/api/v1/usage?{urlencode({**query, 'by': by, 'format': 'csv'})}",
        "json": f"/api/v1/usage?{urlencode({**query, 'by': by})}",
    }


def _sums(total: UsageSum) -> list[StripFigure]:
    wasted = sum(total.wasted.values())
    percent = f"{_percent(wasted, total.gpu_time):.0f} %" if total.gpu_time else ""
    most = f"95 in 100: at most {_wait(total.waited_p95)}"
    return [
        StripFigure("GPU-hours", hours(total.gpu_time)),
        StripFigure("CPU-hours", hours(total.cpu_time)),
        StripFigure("Wasted GPU-hours", hours(wasted), percent, small="failed, evicted, lost"),
        StripFigure("Waited", _wait(total.waited_mean), "on average", small=most),
        StripFigure("Jobs", f"{total.jobs:,}"),
    ]


def _wastes(total: UsageSum) -> list[tuple[str, str, float, str]]:
    """(what, state for the colour, percent of all GPU-hours, GPU-hours)"""
    named = (
        ("In jobs that failed by their own fault", "FAILED"),
        ("Evicted for another job", "EVICTED"),
        ("Lost by the cluster, a node for example", "LOST"),
    )
    colours = {"FAILED": "ls-failed", "EVICTED": "ls-stopping", "LOST": "ls-stopped"}
    return [
        (what, colours[key], _percent(total.wasted[key], total.gpu_time), hours(total.wasted[key]))
        for what, key in named
    ]


def _chart(which: Filter, by: str, viewer: Viewer) -> dict[str, Any]:
    """GPU-hours a day; the series that have most, and all others as one."""
    series = {key: [time / HOUR for time in times] for key, times in usage.daily(which, by, viewer).items()}
    series = {key: times for key, times in series.items() if sum(times) > 0}
    order = sorted(series, key=lambda key: (key == OTHERS, -sum(series[key]), key))
    number = len(_COLOURS)
    named, rest = (order, []) if len(order) <= number else (order[: number - 1], order[number - 1 :])
    stacks = {css: series[name] for css, name in zip(_COLOURS, named, strict=False)}
    key = [(css, _name(name, by), words.hours(sum(series[name]))) for css, name in zip(_COLOURS, named, strict=False)]
    if rest:
        added = [sum(day) for day in zip(*(series[name] for name in rest), strict=True)]
        stacks[_REST] = added
        key.append((_REST, "others" if OTHERS in rest else f"{len(rest)} others", words.hours(sum(added))))
    highest = max((sum(day) for day in zip(*stacks.values(), strict=True)), default=0.0)
    top = drawing.nice_top(highest)
    days = which.window.days()[:-1]
    return {
        "pieces": drawing.columns(stacks, top),
        "axis": drawing.axis(top),
        "grid": drawing.GRID,
        "key": key,
        "labels": _labels(days, which.window),
        "says": f"GPU-hours a day by {_NAMES[by]}, {len(days)} days; the sums are in the key and in the table",
    }


def _labels(days: list[int], span: window.TimeWindow) -> list[tuple[str, str, str]]:
    """(x, day, class) of at most eight columns, every other of which is left out where the page is narrow."""
    step, wide = -(-len(days) // 8), 100 / len(days)
    chosen = [(at, _short(local_time(days[at], span.zone))) for at in range(0, len(days), step)]
    return [
        (f"{wide * (at + 0.5):.2f}%", day, "" if number % 2 == 0 else "ls-md")
        for number, (at, day) in enumerate(chosen)
    ]


def _row(line: UsageSum, by: str, which: Filter, total: UsageSum, query: dict[str, str]) -> UsageRow:
    amounts = (hours(line.gpu_time), hours(line.cpu_time), _percent(line.gpu_time, total.gpu_time))
    wasted = _percent(sum(line.wasted.values()), line.gpu_time)
    waits = (_wait(line.waited_mean), _wait(line.waited_p95))
    name, url = _name(line.key, by), ""
    if by == "day":
        day = local_time(int(line.key), which.window.zone)
        name = f"{day:%a} {_short(day)}"
        url = _day_url(query, day) if line.gpu_time or line.cpu_time else ""
    elif by in ("user", "vc") and line.key:
        url = _address(query, by="day", **{"username" if by == "user" else "vc": line.key})
    return UsageRow(name, *amounts, wasted, *waits, line.jobs, url)


def _name(key: str, by: str) -> str:
    if by == "state":
        return _OUTCOMES.get(key, key.capitalize())
    return key if key != OTHERS else "others in your virtual clusters"


def _day_url(query: dict[str, str], day: datetime) -> str:
    return _address(query, by="user", **{"from": f"{day:%Y-%m-%d}", "to": f"{day:%Y-%m-%d}"})


def _address(query: dict[str, str], **changes: str) -> str:
    kept = {name: value for name, value in {**query, **changes}.items() if value}
    return f"/usage?{urlencode(kept)}"


def _short(day: datetime) -> str:
    return f"{day.day} {day:%b}"


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _wait(milliseconds: float | None) -> str:
    return words.duration(None if milliseconds is None else milliseconds / 1000)


def hours(time: int) -> str:
    return words.hours(time / HOUR)
