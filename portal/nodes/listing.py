"""What the page of all nodes shows: how many are in each state, one page of them by name, and what holds for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet

from base.accounts.viewer import Viewer
from base.core.words import whole
from base.hosts import predecessor
from clusters.models import Cluster
from jobs import queries
from portal.nodes.rows import lines_of, node_rooms, reserved, sums, with_state

SIZES = (20, 50, 100)
STATES = ("active", "cordoned", "draining", "unreachable")
_KNOWN = frozenset({"state", "keyword", "before", "after", "limit"})
_LONGEST = 255  # characters, as the longest name has
MOST_MARKS = 20  # sentences about nodes; a registry that is away marks all of them


class NodesQuery:
    """The address of the page. Wrong values are ignored; ``odd`` names them. ``after`` and ``before`` are the names of
    the last node of the page before and of the first one of the page behind."""

    def __init__(self, params: Mapping[str, str]) -> None:
        state, keyword, limit = params.get("state", ""), params.get("keyword", "").strip(), whole(params.get("limit"))
        self.state = state if state in STATES else ""
        self.keyword = keyword if len(keyword) <= _LONGEST and keyword.isprintable() else ""
        self.limit = limit if limit in SIZES else 50
        self.before, self.after = (_name(params.get(name, "")) for name in ("before", "after"))
        taken = {"state": state == self.state, "keyword": keyword == self.keyword}
        self.odd = [name for name in params if name not in _KNOWN or not taken.get(name, True)]

    def address(self, **changes: object) -> str:
        """The address of this page with some values changed; defaults are left out."""
        limit = self.limit if self.limit != 50 else ""
        values = {"state": self.state, "keyword": self.keyword, "limit": limit, **changes}
        query = {name: value for name, value in values.items() if value}
        return f"/nodes?{urlencode(query)}" if query else "/nodes"

    def nodes(self) -> QuerySet[Any]:
        """Those of every state that have the keyword."""
        has = Q(name__icontains=self.keyword) | Q(address__icontains=self.keyword)
        return with_state().filter(has) if self.keyword else with_state()


@dataclass(frozen=True, slots=True)
class NodesFacet:
    state: str  # "" = all
    number: int
    url: str
    current: bool


def facets(query: NodesQuery) -> list[NodesFacet]:
    counts = dict(query.nodes().order_by().values_list("shown").annotate(number=Count("id")))
    every = NodesFacet("", sum(counts.values()), query.address(state=""), not query.state)
    of_states = [NodesFacet(s, counts.get(s, 0), query.address(state=s), query.state == s) for s in STATES]
    return [every, *of_states]


def nodes_page(query: NodesQuery, viewer: Viewer) -> dict[str, Any]:
    """The context of nodes/nodes.html; neither its queries nor what it draws grow with the nodes, with what runs or
    with what waits."""
    names, previous, following = page_of(query)
    rooms = node_rooms()
    there = {room.view.name: room for room in rooms}
    lines = lines_of([there[name] for name in names if name in there], queries.gpus_of(viewer.username))
    marks = [mark for room in rooms for mark in room.view.marks]
    clusters = Cluster.objects.annotate(number=Count("nodes")).order_by("name")
    return {
        "nav": "nodes",
        "query": query,
        "facets": facets(query),
        "sizes": SIZES,
        "newer": query.address(before=names[0]) if previous and names else "",
        "older": query.address(after=names[-1]) if following and names else "",
        "held": predecessor.sentence(),
        "number": len(rooms),
        "nodes": lines,
        "clusters": clusters if any("/" in name for name in there) else [],
        "marks": marks[:MOST_MARKS],
        "more_marks": len(marks[MOST_MARKS:]),
        "away": sum(room.state == "unreachable" for room in rooms),
        "reserved": reserved(viewer),
        **sums(rooms),
    }


def page_of(query: NodesQuery) -> tuple[list[str], bool, bool]:
    """The names of the page, and whether there are others before and behind them."""
    nodes = query.nodes().filter(shown=query.state) if query.state else query.nodes()
    names = nodes.values_list("name", flat=True)
    if query.before:
        page = list(names.filter(name__lt=query.before).order_by("-name")[: query.limit + 1])
        return page[: query.limit][::-1], len(page) > query.limit, True
    page = list((names.filter(name__gt=query.after) if query.after else names).order_by("name")[: query.limit + 1])
    return page[: query.limit], bool(query.after), len(page) > query.limit


def _name(text: str) -> str:
    """A name of a node, as far as a database can look for it."""
    return text if len(text) <= _LONGEST and text.isprintable() else ""
