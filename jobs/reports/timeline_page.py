"""What the page of the timeline shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone

from clusters.users.queries import vc_names
from jobs.history import timeline, window
from jobs.history.timeline import Row, Span
from jobs.history.window import Window
from jobs.pages.rows import job_url
from jobs.reports import lanes
from jobs.reports.lanes import Drawn, Held
from portal.accounts.viewer import Viewer
from portal.core import words

SPAN, LONGEST = timedelta(hours=12), timedelta(days=31)
FEW_NODES = 20  # more are drawn as one line each
LINKS = 1_500  # bars of one page that are links
LINES = 200  # of the table
_SPANS = (("1h", "1 h"), ("12h", "12 h"), ("1d", "Day"), ("7d", "Week"))
_OUTCOMES = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "was stopped", "EVICTED": "was evicted"}
_EDGE = 4  # percent of the width
_STEPS = (60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with its bars or, of many nodes, the line of its use."""

    name: str
    url: str
    what: str
    state: str
    says: str
    drawn: Drawn | None
    line: str


def read_window(query: Mapping[str, str]) -> Window:
    """Raises BadRequest with a sentence."""
    return window.read(query.get("from", ""), query.get("to", ""), timezone.localtime(), span=SPAN, longest=LONGEST)


def timeline_page(span: Window, viewer: Viewer, query: dict[str, str]) -> dict[str, Any]:
    """The context of the template; its number of queries does not grow with the rows."""
    node, vc = query.get("node", ""), query.get("vc", "")
    held = timeline.spans(span, node=node, vc=vc)
    rows = timeline.rows(held, node)
    is_table = query.get("view") == "table"
    chosen = int(query["task"]) if query.get("task", "").isdecimal() and len(query["task"]) < 19 else 0
    return {
        "begin": window.at(span.begin, span.zone),
        "end": window.at(span.end, span.zone),
        "spans": [(text, name, _address(query, **{"from": text, "to": ""})) for text, name in _SPANS],
        "range": query.get("from", "12h") if not query.get("to") else "",
        "moves": _moves(span, query),
        "vcs": vc_names(),
        "vc": vc,
        "node": node,
        "without_node": _address(query, node="") if node else "",
        "as_table": _address(query, view="" if is_table else "table"),
        "is_table": is_table,
        "jobs": len({one.job_id for one in held}),
        "is_cut": len(held) == timeline.MOST,
        "lines": _lines(held, span, query) if is_table else [],
        "rows": [] if is_table else _rows(rows, held, span, viewer, query),
        "ticks": _ticks(span),
        "now": f"{100 * (span.now - span.begin) / (span.end - span.begin):.2f}%" if span.now < span.end else "",
        "card": _card(chosen, span, viewer, query) if chosen else None,
        "json": f"/api/v1/cluster/timeline?{urlencode({'from': span.begin, 'to': span.end})}",
        "query": query,
    }


def _rows(rows: list[Row], held: list[Span], span: Window, viewer: Viewer, query: dict[str, str]) -> list[NodeRow]:
    of_node: dict[str, list[Span]] = {}
    for one in held:
        of_node.setdefault(one.node, []).append(one)
    are_few = len(rows) <= FEW_NODES
    links = LINKS // max(1, len(of_node))
    return [_row(row, of_node.get(row.name, []), are_few, links, span, viewer, query) for row in rows]


def _row(
    row: Row, held: list[Span], are_few: bool, links: int, span: Window, viewer: Viewer, query: dict[str, str]
) -> NodeRow:
    gpus = [gpu for gpu, _ in row.gpus]
    kinds = words.listing(sorted({kind for _, kind in row.gpus} - {""}))
    what = f"{len(gpus)} × {kinds or 'GPU'}" if gpus else "no GPU"
    parts = [_held(one, span, viewer.username, named=are_few) for one in held]
    says = f"{row.name}: {words.count(len({one.job_id for one in held}), 'job')}"
    drawn = lanes.draw(gpus, parts, links) if are_few else None
    line = "" if are_few else lanes.use(gpus, parts)
    state = row.status if row.status != "active" else ""
    return NodeRow(row.name, _address(query, node=row.name), what, state, says, drawn, line)


def _held(one: Span, span: Window, me: str, *, named: bool) -> Held:
    whole, end = span.end - span.begin, span.until if one.ended is None else min(one.ended, span.until)
    css = "guest" if one.guest else "mine" if one.username == me else "busy"
    begin = max(one.began, span.begin)
    name = one.job + (", guest" if one.guest else "") if named else ""
    says = f"{name}, {one.task}, attempt {one.attempt}" if named else ""
    is_evicted = one.outcome == "EVICTED" and one.ended == end
    return Held(one.id, name, says, css, one.gpus, (begin - span.begin) / whole, (end - span.begin) / whole, is_evicted)


def _moves(span: Window, query: dict[str, str]) -> list[tuple[str, str, str]]:
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


def _ticks(span: Window) -> list[tuple[str, str, str]]:
    """(x, label, class) of at most nine full hours or days, every other of which a narrow page leaves out. One at the
    left edge has no label: the names of the nodes would hide half of it."""
    step = next((each for each in _STEPS if (span.end - span.begin) / 1000 / each <= 9), _STEPS[-1])
    begin = window.at(span.begin, span.zone)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = window.moment(midnight) + -(-(span.begin - window.moment(midnight)) // (step * 1000)) * step * 1000
    moments = [window.at(each, span.zone) for each in range(first, span.end, step * 1000)]
    long = span.end - span.begin
    found = []
    for number, each in enumerate(moments):
        percent = 100 * (window.moment(each) - span.begin) / long
        says = f"{each:%H:%M}" if step < 86400 and (each.hour or each.minute) else f"{each.day} {each:%b}"
        found.append((f"{percent:.2f}%", says if percent >= _EDGE else "", "ls-md" if number % 2 else ""))
    return found


def _lines(held: list[Span], span: Window, query: dict[str, str]) -> list[dict[str, Any]]:
    """The table: what began last first."""
    latest = sorted(held, key=lambda one: (-one.began, -one.id))[:LINES]
    return [{"span": one, "url": _address(query, task=str(one.id)), **_facts(one, span)} for one in latest]


def _facts(one: Span, span: Window) -> dict[str, Any]:
    ended = None if one.ended is None else window.at(one.ended, span.zone)
    gpus = f"GPU {words.ranges(one.gpus)}" if one.gpus else "no GPU"
    return {
        "began": window.at(one.began, span.zone),
        "ended": ended,
        "where": f"{one.node}, {gpus}",
        "outcome": "runs" if one.ended is None else _OUTCOMES.get(one.outcome, "was lost with its node"),
        "held": words.duration(((one.ended or span.now) - one.began) / 1000),
    }


def _card(id: int, span: Window, viewer: Viewer, query: dict[str, str]) -> dict[str, Any] | None:
    found = timeline.decision(id, viewer)
    if found is None:
        return None
    one = found.span
    hours = len(one.gpus) * ((one.ended or span.now) - one.began) / 3_600_000
    return {
        "span": one,
        **_facts(one, span),
        "what": f"{len(one.gpus)} {one.gpu_type or 'GPU'}" if one.gpus else f"{one.cpus} CPU",
        "gpu_hours": words.hours(hours) if one.gpus else "",
        "why_began": found.began,
        "why_ended": found.ended,
        "after": found.after,
        "job_url": job_url(one.username, one.job_name) if found.job_exists else "",
        "close": _address(query, task=""),
    }


def _address(query: dict[str, str], **changes: str) -> str:
    kept = {name: value for name, value in {**query, **changes}.items() if value}
    return f"/timeline?{urlencode(kept)}" if kept else "/timeline"
