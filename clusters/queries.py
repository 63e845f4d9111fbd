"""Reads of nodes and what is taken on them."""

from __future__ import annotations

from django.utils import timezone

from clusters.models import Allocation, Node
from clusters.placement import NodeView


def load_nodes() -> list[NodeView]:
    """All nodes by name, with allocations and what quarantine holds counted as taken."""
    return Ledger().nodes()


def load_idle_nodes() -> list[NodeView]:
    """All nodes by name as if nothing ran on them: what a job could get at best. One query."""
    return [_view(node, 0, 0, set(), set()) for node in Node.objects.order_by("name")]


class Ledger:
    """Sums what is taken. Allocation rows never change, so a pass reads only the ids and the rows it has not seen."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int, int, tuple[str, ...], tuple[int, ...]]] = {}

    def nodes(self, *, with_held: bool = True) -> list[NodeView]:
        """``with_held``: count as taken what quarantine held when the scheduler last wrote it down."""
        self._refresh()
        used: dict[int, tuple[list[int], list[int], set[str], set[int]]] = {}
        for node_id, cpus, memory, gpus, ports in self._rows.values():
            of_node = used.setdefault(node_id, ([], [], set(), set()))
            of_node[0].append(cpus)
            of_node[1].append(memory)
            of_node[2].update(gpus)
            of_node[3].update(ports)
        views = []
        for node in Node.objects.order_by("name"):
            cpus_of, memory_of, gpus_of, ports_of = used.get(node.pk, ([], [], set(), set()))
            if with_held:
                gpus_of, ports_of = gpus_of.union(node.held.get("gpus", ())), ports_of.union(node.held.get("ports", ()))
            views.append(_view(node, sum(cpus_of), sum(memory_of), gpus_of, ports_of))
        return views

    def _refresh(self) -> None:
        ids = set(Allocation.objects.values_list("id", flat=True))
        self._rows = {id: row for id, row in self._rows.items() if id in ids}
        missing = sorted(ids - self._rows.keys())
        if not missing:
            return
        new = Allocation.objects.filter(id__gte=missing[0]).values_list(
            "id", "node_id", "cpus", "memory_mb", "gpu_ids", "ports"
        )
        for id, node_id, cpus, memory, gpus, ports in new:
            self._rows[id] = node_id, cpus, memory, tuple(gpus), tuple(ports)


def _view(node: Node, cpus: int, memory_mb: int, gpus: set[str], ports: set[int]) -> NodeView:
    why_not = _why_not(node)
    return NodeView(
        name=node.name,
        address=node.address,
        cpus=node.cpus,
        memory_mb=node.memory_mb,
        gpus=tuple((gpu["id"], gpu.get("type", "")) for gpu in node.gpus),
        port_from=node.port_from,
        port_to=node.port_to,
        network=node.network,
        offered=not why_not,
        why_not=why_not,
        used_cpus=cpus,
        used_memory_mb=memory_mb,
        used_gpus=frozenset(gpus),
        used_ports=frozenset(ports),
    )


def _why_not(node: Node) -> str:
    if node.health != Node.Health.READY:
        since = node.unreachable_since
        return f"unreachable since {timezone.localtime(since):%H:%M}" if since else "unreachable"
    return "" if node.status == Node.Status.ACTIVE else str(node.status)
