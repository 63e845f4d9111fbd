"""What the page of nodes shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max

from clusters.models import Allocation, Node
from clusters.nodes.queries import load_nodes
from clusters.placement.fit import Mark, NodeView

_MARKED = {"gpus": "hands out no GPUs", "start": "starts nothing", "portal": "does not reach the portal"}


@dataclass(frozen=True, slots=True)
class NodeLine:
    view: NodeView
    state: str  # active, cordoned, draining, unreachable
    reason: str
    gpu_types: str
    docker_version: str
    last_seen_at: datetime | None

    @property
    def used_gpus(self) -> int:
        return len(self.view.used_gpus)

    @property
    def mark_words(self) -> list[str]:
        return [_MARKED.get(mark.kind) or f"pulls nothing from {mark.what}" for mark in self.view.marks]


def nodes_page() -> dict[str, list[NodeLine] | list[Mark]]:
    lines = node_lines()
    return {"nodes": lines, "marks": [mark for line in lines for mark in line.view.marks]}


def nodes_version() -> str:
    """Changes whenever the page may look different, and at least as often as nodes are seen again."""
    nodes = Node.objects.aggregate(n=Count("id"), changed=Max("updated_at"), seen=Max("last_seen_at"))
    taken = Allocation.objects.aggregate(n=Count("id"), last=Max("id"))
    return ".".join(str(each) for each in (*nodes.values(), *taken.values()))


def node_lines() -> list[NodeLine]:
    rows = {node.name: node for node in Node.objects.defer("images")}
    return [_line(view, rows[view.name]) for view in load_nodes() if view.name in rows]


def _line(view: NodeView, node: Node) -> NodeLine:
    away = node.health != Node.Health.READY
    types = ", ".join(sorted({kind for _, kind in view.gpus} - {""}))
    state = "unreachable" if away else str(node.status)
    return NodeLine(view, state, node.health_reason, types, node.docker_version, node.last_seen_at)
