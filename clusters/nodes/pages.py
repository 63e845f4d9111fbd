"""What the page of nodes shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django.db.models import Count, Max

from clusters.models import Allocation, Cluster, Node
from clusters.nodes.queries import load_nodes, view_of
from clusters.placement.fit import NodeView

Own = Mapping[str, Collection[str]]  # the GPUs of whoever looks, by node
NOBODY: Own = {}
_MARKED = {"gpus": "hands out no GPUs", "start": "starts nothing", "portal": "does not reach the portal"}


@dataclass(frozen=True, slots=True)
class NodeLine:
    """``squares``: a word for each GPU, see ``squares`` below."""

    view: NodeView
    state: str  # active, cordoned, draining, unreachable
    reason: str
    gpu_types: str
    docker_version: str
    last_seen_at: datetime | None
    squares: tuple[str, ...]

    @property
    def is_of_cluster(self) -> bool:
        return "/" in self.view.name

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


def nodes_page(own: Own) -> dict[str, Any]:
    """The context of clusters/_nodes.html, but for what jobs say; three queries, however many nodes there are."""
    lines = node_lines(own)
    return {
        "nodes": lines,
        "clusters": cluster_lines() if any(line.is_of_cluster for line in lines) else [],
        "marks": [mark for line in lines for mark in line.view.marks],
        "free_gpus": sum(line.free_gpus for line in lines),
        "all_gpus": sum(len(line.view.gpus) for line in lines),
        "largest": max((line.free_gpus for line in lines), default=0),
        "away": sum(line.state == "unreachable" for line in lines),
    }


def cluster_lines() -> list[Cluster]:
    """Kubernetes clusters by name, each with the number of its nodes as ``number``."""
    return list(Cluster.objects.annotate(number=Count("nodes")).order_by("name"))


def nodes_version() -> str:
    """Changes whenever the page may look different, and at least as often as nodes are seen again."""
    nodes = Node.objects.aggregate(n=Count("id"), changed=Max("updated_at"), seen=Max("last_seen_at"))
    taken = Allocation.objects.aggregate(n=Count("id"), last=Max("id"))
    return ".".join(str(each) for each in (*nodes.values(), *taken.values()))


_SHOWN = ("status", "health", "health_reason", "docker_version", "last_seen_at")


def node_lines(own: Own = NOBODY) -> list[NodeLine]:
    rows = {name: shown for name, *shown in Node.objects.values_list("name", *_SHOWN)}
    return [_line(view, own, *rows[view.name]) for view in load_nodes() if view.name in rows]


def line_of(node: Node, own: Own = NOBODY) -> NodeLine:
    """One query, for what is taken on it."""
    return _line(view_of(node), own, *(getattr(node, name) for name in _SHOWN))


def state_of(status: str, health: str) -> str:
    """The word for a node: active, cordoned, draining, unreachable."""
    return str(status) if health == Node.Health.READY else "unreachable"


def squares(
    gpus: Iterable[str], state: str, *, out: Collection[str], own: Collection[str], taken: Collection[str]
) -> tuple[str, ...]:
    """A word for each GPU of a node in this state: free, mine, busy, held (not offered) or out (of service). ``out``
    are those in quarantine, ``own`` the viewer's, ``taken`` everybody's."""
    if state == "unreachable":
        return tuple("out" for _ in gpus)
    idle = "free" if state == "active" else "held"
    return tuple("out" if id in out else "mine" if id in own else "busy" if id in taken else idle for id in gpus)


def _line(
    view: NodeView, own: Own, status: str, health: str, reason: str, docker_version: str, seen: datetime | None
) -> NodeLine:
    types = ", ".join(sorted({kind for _, kind in view.gpus} - {""}))
    state = state_of(status, health)
    if state == "active" and not view.offered:  # its cluster lets nothing start there
        state, reason = "cordoned", view.why_not
    mine = own.get(view.name, ())
    shown = squares((id for id, _ in view.gpus), state, out=view.held[0], own=mine, taken=view.used_gpus)
    return NodeLine(view, state, reason, types, docker_version, seen, shown)
