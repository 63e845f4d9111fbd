"""What the page of the timeline shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from base.core.values import local_time, milliseconds
from clusters.vcs.grants import vc_names
from jobs.history import timeline, window
from jobs.history.timeline import HoldingBar, TimelineNode
from jobs.history.window import TimeWindow
from portal.reports import drawing
from portal.reports.drawing import DrawnNode, HeldSpan
from portal.shared.jobs.rows import job_url

SPAN, LONGEST = timedelta(hours=12), timedelta(days=31)
FEW_NODES = 20  # more are drawn as one line each
LINKS = 1_500  # bars of one page that are links
LINES = 200  # of the table
_SPANS = (("1h", "1 h"), ("12h", "12 h"), ("1d", "Day"), ("7d", "Week"))
_OUTCOMES = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "was stopped", "EVICTED": "was evicted"}
_EDGE = 4  # percent of the width
_STEPS = (60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A node with its bars or, of many nodes, the line of its use."""

    name: str
    url: str
    what: str
    state: str
    says: str
    drawn: DrawnNode | None
    line: str


def read_window(query: Mapping[str, str]) -> TimeWindow:
    """Raises BadRequest with a sentence."""
    return window.read_window(
        query.get("from", ""), query.get("to", ""), timezone.localtime(), span=SPAN, longest=LONGEST
    )


def timeline_page(span: TimeWindow, viewer: Viewer, query: dict[str, str]) -> dict[str, Any]:
    """The context of the template; its number of queries does not grow with the rows."""
    node, vc = query.get("node", ""), query.get("vc", "")
    held = timeline.bars(span, viewer, node=node, vc=vc)
    rows = timeline.rows(held, node)
    is_table = query.get("view") == "table"
    chosen = words.whole(query.get("task")) or 0
    return {
        "begin": local_time(span.begin, span.zone),
        "end": local_time(span.end, span.zone),
        "spans": [(text, name, _address(query, **{"from": text, "to": ""})) for text, name in _SPANS],
        "range": query.get("from", "12h") if not query.get("to") else "",
        "moves": _moves(span, query),
        "vcs": vc_names(),
        "vc": vc,
        "node": node,
        "without_node": _address(query, node="") if node else "",
        "as_table": _address(query, view="" if is_table else "table"),
        "is_table": is_table,
        "jobs": len({bar.job_id for bar in held}),
        "is_cut": len(held) == timeline.MOST,
        "lines": _lines(held, span, query) if is_table else [],
        "rows": [] if is_table else _rows(rows, held, span, viewer, query),
        "ticks": _ticks(span),
        "now": f"{100 * (span.now - span.begin) / (span.end - span.begin):.2f}%" if span.now < span.end else "",
        "card": _card(chosen, span, viewer, query) if chosen else None,
        "json": f"/api/v1/cluster/timeline?{urlencode({'from': span.begin, 'to': span.end})}",
        "query": query,
    }


def _rows(
    rows: list[TimelineNode], held: list[HoldingBar], span: TimeWindow, viewer: Viewer, query: dict[str, str]
) -> list[TimelineRow]:
    of_node: dict[str, list[HoldingBar]] = {}
    for bar in held:
        of_node.setdefault(bar.node, []).append(bar)
    are_few = len(rows) <= FEW_NODES
    links = LINKS // max(1, len(of_node))
    return [_row(row, of_node.get(row.name, []), are_few, links, span, viewer, query) for row in rows]


def _row(
    row: TimelineNode,
    held: list[HoldingBar],
    are_few: bool,
    links: int,
    span: TimeWindow,
    viewer: Viewer,
    query: dict[str, str],
) -> TimelineRow:
    gpus = [gpu for gpu, _ in row.gpus]
    kinds = words.listing(sorted({kind for _, kind in row.gpus} - {""}))
    what = f"{len(gpus)} × {kinds or 'GPU'}" if gpus else "no GPU"
    parts = [_held(bar, span, viewer.username, named=are_few) for bar in held]
    says = f"{row.name}: {words.count(len({bar.job_id for bar in held}), 'job')}"
    drawn = drawing.draw(gpus, parts, links) if are_few else None
    line = "" if are_few else drawing.use(gpus, parts)
    state = row.status if row.status != "active" else ""
    return TimelineRow(row.name, _address(query, node=row.name), what, state, says, drawn, line)


def _held(bar: HoldingBar, span: TimeWindow, me: str, *, named: bool) -> HeldSpan:
    whole, end = span.end - span.begin, span.until if bar.ended is None else min(bar.ended, span.until)
    css = "guest" if bar.guest else "mine" if bar.username == me else "busy"
    begin = max(bar.began, span.begin)
    name = bar.job + (", guest" if bar.guest else "") if named else ""
    says = f"{name}, {bar.task}, attempt {bar.attempt}" if named else ""
    is_evicted = bar.outcome == "EVICTED" and bar.ended == end
    return HeldSpan(
        bar.id, name, says, css, bar.gpus, (begin - span.begin) / whole, (end - span.begin) / whole, is_evicted
    )


def _moves(span: TimeWindow, query: dict[str, str]) -> list[tuple[str, str, str]]:
    """(icon, what, address) of zooming and moving by a link."""
    long, middle = span.end - span.begin, (span.begin + span.end) // 2
    longest = LONGEST // timedelta(milliseconds=1)
    ways = (
        ("circle-minus", "Zoom out", max(0, middle - min(long, longest // 2)), middle + min(long, longest // 2)),
        ("plus", "Zoom in", middle - max(30_000, long // 4), middle + max(30_000, long // 4)),
        ("chevron-left", "Earlier", max(0, span.begin - long // 2), max(long, span.end - long // 2)),
        ("chevron-right", "Later", span.begin + long // 2, span.end + long // 2),
    )
    return [(icon, what, _address(query, **{"from": str(a), "to": str(b), "task": ""})) for icon, what, a, b in ways]


def _ticks(span: TimeWindow) -> list[tuple[str, str, str]]:
    """(x, label, class) of at most nine full hours or days, every other of which a narrow page leaves out. One at the
    left edge has no label: the names of the nodes would hide half of it."""
    step = next((each for each in _STEPS if (span.end - span.begin) / 1000 / each <= 9), _STEPS[-1])
    begin = local_time(span.begin, span.zone)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = milliseconds(midnight) + -(-(span.begin - milliseconds(midnight)) // (step * 1000)) * step * 1000
    moments = [local_time(each, span.zone) for each in range(first, span.end, step * 1000)]
    long = span.end - span.begin
    ticks = []
    for number, each in enumerate(moments):
        percent = 100 * (milliseconds(each) - span.begin) / long
        says = f"{each:%H:%M}" if step < 86400 and (each.hour or each.minute) else f"{each.day} {each:%b}"
        ticks.append((f"{percent:.2f}%", says if percent >= _EDGE else "", "ls-md" if number % 2 else ""))
    return ticks


def _lines(held: list[HoldingBar], span: TimeWindow, query: dict[str, str]) -> list[dict[str, Any]]:
    """Return the table: what began last first."""
    latest = sorted(held, key=lambda bar: (-bar.began, -bar.id))[:LINES]
    return [{"span": bar, "url": _address(query, task=str(bar.id)), **_facts(bar, span)} for bar in latest]


def _facts(bar: HoldingBar, span: TimeWindow) -> dict[str, Any]:
    ended = None if bar.ended is None else local_time(bar.ended, span.zone)
    gpus = f"GPU {words.ranges(bar.gpus)}" if bar.gpus else "no GPU"
    return {
        "began": local_time(bar.began, span.zone),
        "ended": ended,
        "where": f"{bar.node}, {gpus}",
        "outcome": "runs" if bar.ended is None else _OUTCOMES.get(bar.outcome, "was lost with its node"),
        "held": words.duration(((bar.ended or span.now) - bar.began) / 1000),
    }


def _card(id: int, span: TimeWindow, viewer: Viewer, query: dict[str, str]) -> dict[str, Any] | None:
    reasons = timeline.reasons_of(id, viewer)
    if reasons is None:
        return None
    bar = reasons.span
    hours = len(bar.gpus) * ((bar.ended or span.now) - bar.began) / 3_600_000
    return {
        "span": bar,
        **_facts(bar, span),
        "what": f"{len(bar.gpus)} {words.visible(bar.gpu_type or 'GPU')}" if bar.gpus else f"{bar.cpus} CPU",
        "gpu_hours": words.hours(hours) if bar.gpus else "",
        "why_began": reasons.began,
        "why_ended": reasons.ended,
        "after": reasons.after,
        "job_url": job_url(bar.username, bar.job_name) if reasons.job_exists else "",
        "close": _address(query, task=""),
    }


def _address(query: dict[str, str], **changes: str) -> str:
    kept = {name: value for name, value in {**query, **changes}.items() if value}
    return f"/timeline?{urlencode(kept)}" if kept else "/timeline"
