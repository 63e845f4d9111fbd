"""Reads nodes and what is taken on them."""

from __future__ import annotations

import sys
from dataclasses import fields, replace

from django.conf import settings
from django.db import connection
from django.db.models import Count, Max, Sum
from django.utils import timezone

from clusters.models import Allocation, Node
from clusters.nodes.refusals import marks_of
from clusters.placement.fit import NodeView, in_force


def load_nodes() -> list[NodeView]:
    """All nodes by name. Allocations and what quarantine holds count as taken, and only marks in force are there."""
    return in_force(Ledger().nodes(), timezone.now())


def load_idle_nodes() -> list[NodeView]:
    """All nodes by name as if nothing ran on them: what a job could get at best. One query."""
    return [_view(node, 0, 0, set(), set()) for node in Node.objects.only(*_NODE).order_by("name")]


def view_of(node: Node) -> NodeView:
    """One node, as in ``load_nodes``."""
    rows = list(Allocation.objects.filter(node=node).values_list("cpus", "memory_mb", "gpu_ids", "ports"))
    gpus, ports = {gpu for row in rows for gpu in row[2]}, {port for row in rows for port in row[3]}
    view = _view(node, sum(row[0] for row in rows), sum(row[1] for row in rows), gpus, ports)
    return in_force([_and_held(view, node)], timezone.now())[0]


# A field of NodeView that has the name of a column is that column; these are converted by ``_view``.
_CONVERTED = ("gpus", "fixed_ports", "held", "images", "marks", "labels")
_TAKEN_OVER = sorted(
    {field.name for field in fields(NodeView)} & {field.name for field in Node._meta.concrete_fields} - {*_CONVERTED}
)
# All that a NodeView depends on. The scheduler compares these as the database has them, 1,000 rows in a few
# milliseconds, and only a node that differs is read and decoded again (``images_at`` stands for the long ``images``).
_NODE = (
    *("id", *_TAKEN_OVER, "gpus", "fixed_ports", "held", "images_at", "marks", "labels"),
    *("endpoint", "tls_dir", "status", "health", "unreachable_since"),
)
_RAW_NODES = f"SELECT {', '.join(_NODE)} FROM {Node._meta.db_table} ORDER BY name"  # noqa: S608 - names of our own


class Ledger:
    """Nodes and what is taken on them, remembered from pass to pass. Allocation rows never change, so a pass reads only
    their ids and the rows that it has not seen yet."""

    def __init__(self) -> None:
        self._raw: dict[int, tuple[object, ...]] = {}
        self._nodes: dict[int, Node] = {}  # by id, in order of their names
        self._rows: dict[int, tuple[int, int, int, tuple[str, ...], tuple[int, ...]]] = {}
        self._of_node: dict[int, set[int]] = {}  # ids of rows
        self._known: tuple[object, ...] = ()  # count, last id and sum of the ids
        self._views: dict[int, NodeView] = {}  # dropped when the node or what is taken on it has changed

    def registered(self) -> list[Node]:
        """All nodes by name, as they are now, with the columns that a NodeView depends on."""
        with connection.cursor() as cursor:
            cursor.execute(_RAW_NODES)
            raw = {row[0]: row for row in cursor.fetchall()}
        changed = [id for id, row in raw.items() if self._raw.get(id) != row]
        for start in range(0, len(changed), 500):
            for node in Node.objects.only(*_NODE, "images").filter(id__in=changed[start : start + 500]):
                self._nodes[node.pk] = node
        for id in [*changed, *(self._raw.keys() - raw.keys())]:
            self._views.pop(id, None)
        self._raw = {id: row for id, row in raw.items() if id in self._nodes}
        self._nodes = {id: self._nodes[id] for id in self._raw}
        return list(self._nodes.values())

    def nodes(self, *, with_held: bool = True) -> list[NodeView]:
        """``with_held``: what quarantine held when the scheduler last wrote it down counts as taken too."""
        nodes = self.registered()
        self._refresh()
        for node in nodes:
            if node.pk not in self._views:
                rows = [self._rows[id] for id in self._of_node.get(node.pk, ())]
                self._views[node.pk] = _view(
                    node,
                    sum(row[1] for row in rows),
                    sum(row[2] for row in rows),
                    {gpu for row in rows for gpu in row[3]},
                    {port for row in rows for port in row[4]},
                )
        views = [self._views[node.pk] for node in nodes]
        return [_and_held(view, node) for view, node in zip(views, nodes, strict=True)] if with_held else views

    def _refresh(self) -> None:
        """Ids only grow, so another set of rows has another count, sum or last id."""
        known = Allocation.objects.aggregate(n=Count("id"), last=Max("id"), all=Sum("id"))
        if (found := tuple(known.values())) == self._known:
            return
        self._known = found
        ids = set(Allocation.objects.values_list("id", flat=True))
        for id in self._rows.keys() - ids:
            self._forget(id)
        missing = sorted(ids - self._rows.keys())
        if not missing:
            return
        new = Allocation.objects.filter(id__gte=missing[0]).values_list(
            "id", "node_id", "cpus", "memory_mb", "gpu_ids", "ports"
        )
        for id, node_id, cpus, memory, gpus, ports in new:
            self._rows[id] = node_id, cpus, memory, tuple(gpus), tuple(ports)
            self._of_node.setdefault(node_id, set()).add(id)
            self._views.pop(node_id, None)

    def _forget(self, id: int) -> None:
        node_id = self._rows.pop(id)[0]
        self._of_node[node_id].discard(id)
        self._views.pop(node_id, None)


def _and_held(view: NodeView, node: Node) -> NodeView:
    if not node.held:
        return view
    gpus, ports = node.held.get("gpus", ()), node.held.get("ports", ())
    return replace(view, used_gpus=view.used_gpus.union(gpus), used_ports=view.used_ports.union(ports))


def _view(node: Node, cpus: int, memory_mb: int, gpus: set[str], ports: set[int]) -> NodeView:
    why_not = _why_not(node)
    return NodeView(
        **{name: getattr(node, name) for name in _TAKEN_OVER},
        gpus=tuple((gpu["id"], gpu.get("type", "")) for gpu in node.gpus),
        fixed_ports=(*((first, last) for first, last in node.fixed_ports), *settings.FIXED_PORTS),
        offered=not why_not,
        why_not=why_not,
        used_cpus=cpus,
        used_memory_mb=memory_mb,
        used_gpus=frozenset(gpus),
        used_ports=frozenset(ports),
        held=(frozenset(node.held.get("gpus", ())), frozenset(node.held.get("ports", ()))),
        images=frozenset(map(sys.intern, node.images)),
        marks=marks_of(node.marks),
        labels=frozenset(node.labels.items()),
    )


def _why_not(node: Node) -> str:
    if node.health != Node.Health.READY:
        since = node.unreachable_since
        return f"unreachable since {timezone.localtime(since):%H:%M}" if since else "unreachable"
    return "" if node.status == Node.Status.ACTIVE else str(node.status)
