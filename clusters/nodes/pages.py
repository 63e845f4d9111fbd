"""What the page of nodes shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django.db.models import Count, Max

from clusters.models import Allocation, Node
from clusters.nodes.queries import load_nodes, view_of
from clusters.placement.fit import NodeView

_MARKED = {"gpus": "hands out no GPUs", "start": "starts nothing", "portal": "does not reach the portal"}


@dataclass(frozen=True, slots=True)
class NodeLine:
    """``squares``: for each GPU free, busy, held (not offered) or out (of service, or quarantined)."""

    view: NodeView
    state: str  # active, cordoned, draining, unreachable
    reason: str
    gpu_types: str
    docker_version: str
    last_seen_at: datetime | None
    squares: tuple[str, ...]

    @property
    def free_gpus(self) -> int:
        return self.squares.count("free")

    @property
    def url(self) -> str:
        return f"/nodes/{quote(self.view.name)}"

    @property
    def says(self) -> str:
        return f"{self.view.name}: {self.free_gpus} of {len(self.view.gpus)} GPUs free"

    @property
    def mark_words(self) -> list[str]:
        return [_MARKED.get(mark.kind) or f"pulls nothing from {mark.what}" for mark in self.view.marks]


def nodes_page() -> dict[str, Any]:
    """The context of clusters/_nodes.html; three queries, however many nodes there are."""
    lines = node_lines()
    return {
        "nodes": lines,
        "marks": [mark for line in lines for mark in line.view.marks],
        "free_gpus": sum(line.free_gpus for line in lines),
        "all_gpus": sum(len(line.view.gpus) for line in lines),
        "largest": max((line.free_gpus for line in lines), default=0),
        "away": sum(line.state == "unreachable" for line in lines),
    }


def nodes_version() -> str:
    """Changes whenever the page may look different, and at least as often as nodes are seen again."""
    nodes = Node.objects.aggregate(n=Count("id"), changed=Max("updated_at"), seen=Max("last_seen_at"))
    taken = Allocation.objects.aggregate(n=Count("id"), last=Max("id"))
    return ".".join(str(each) for each in (*nodes.values(), *taken.values()))


_SHOWN = ("status", "health", "health_reason", "docker_version", "last_seen_at")


def node_lines() -> list[NodeLine]:
    rows = {name: shown for name, *shown in Node.objects.values_list("name", *_SHOWN)}
    return [_line(view, *rows[view.name]) for view in load_nodes() if view.name in rows]


def line_of(node: Node) -> NodeLine:
    """One query, for what is taken on it."""
    return _line(view_of(node), *(getattr(node, name) for name in _SHOWN))


def _line(
    view: NodeView, status: str, health: str, reason: str, docker_version: str, seen: datetime | None
) -> NodeLine:
    types = ", ".join(sorted({kind for _, kind in view.gpus} - {""}))
    state = str(status) if health == Node.Health.READY else "unreachable"
    return NodeLine(view, state, reason, types, docker_version, seen, _squares(view, state))


def _squares(view: NodeView, state: str) -> tuple[str, ...]:
    if state == "unreachable":
        return ("out",) * len(view.gpus)
    idle, quarantined = "free" if state == "active" else "held", view.held[0]
    return tuple("out" if id in quarantined else "busy" if id in view.used_gpus else idle for id, _ in view.gpus)
