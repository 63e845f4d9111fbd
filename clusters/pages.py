"""What the page of nodes shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from clusters.models import Node
from clusters.placement import NodeView
from clusters.queries import load_nodes


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


def node_lines() -> list[NodeLine]:
    rows = {node.name: node for node in Node.objects.all()}
    return [_line(view, rows[view.name]) for view in load_nodes() if view.name in rows]


def _line(view: NodeView, node: Node) -> NodeLine:
    away = node.health != Node.Health.READY
    types = ", ".join(sorted({kind for _, kind in view.gpus} - {""}))
    state = "unreachable" if away else str(node.status)
    return NodeLine(view, state, node.health_reason, types, node.docker_version, node.last_seen_at)
