"""Writes the inventory of a cluster into the rows of its nodes: hosts that join become nodes, those that leave go once
nothing of ours is on them. The history of their jobs stays, as its rows name the node and do not point to it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from clusters.engines.inventory import HostReport, Inventory, name_of
from clusters.models import Cluster, Node

LEFT = "It left its Kubernetes cluster."


class TakenOver(NamedTuple):
    """Has the names of nodes that joined and of those that left, and whether one stays that left, for what it holds."""

    joined: list[str]
    left: list[str]
    stays: bool


def take_over(cluster: Cluster, inventory: Inventory, now: datetime) -> TakenOver:
    """Call inside a transaction."""
    rows = {node.host: node for node in Node.objects.filter(cluster=cluster)}
    hosts = {host.name: host for host in inventory.hosts if host.cpus >= 1 and host.memory_mb >= 1}
    joined = [_made(cluster, host, now) for name, host in hosts.items() if name not in rows]
    taken = set(Node.objects.filter(name__in=[node.name for node in joined]).values_list("name", flat=True))
    joined = [node for node in joined if node.name not in taken]
    Node.objects.bulk_create(joined)
    for name, host in hosts.items():
        if name in rows:
            _refresh(rows[name], host, now)
    gone = [node for name, node in rows.items() if name not in hosts]
    left = _leave(gone, now)
    seen = {"version": inventory.version, "sees_others": inventory.sees_others, "silent_reason": ""}
    Cluster.objects.filter(pk=cluster.pk).update(last_seen_at=now, **seen)
    return TakenOver([node.name for node in joined], left, len(left) < len(gone))


def _made(cluster: Cluster, host: HostReport, now: datetime) -> Node:
    node = Node(
        name=name_of(cluster.name, host.name),
        cluster=cluster,
        host=host.name,
        endpoint=cluster.endpoint,
        tls_dir=cluster.tls_dir,
        port_from=cluster.port_from,
        port_to=cluster.port_to,
        network=cluster.network,
        last_seen_at=now,
        images_at=now,
        surveyed_at=now,
    )
    for column, value in _columns(cluster.name, host).items():
        setattr(node, column, value)
    return node


def _columns(cluster: str, host: HostReport) -> dict[str, Any]:
    return {
        "address": host.address,
        "cpus": host.cpus,
        "memory_mb": host.memory_mb,
        "gpus": [{"id": id, "type": kind} for id, kind in host.gpus],
        "labels": dict(host.labels),
        "images": sorted(host.images),
        "docker_version": host.version[:40],
        "others": {"cpus": host.others_cpus, "memory_mb": host.others_memory_mb, "gpus": host.others_gpus},
        "closed": host.closed,
        "engine_id": f"{cluster}/{host.name}"[:100],
    }


def _refresh(node: Node, host: HostReport, now: datetime) -> None:
    """Write the columns in which a row differs from what the cluster says; a row that agrees is not written."""
    fresh = _columns(node.name.partition("/")[0], host)
    changed = {column: value for column, value in fresh.items() if getattr(node, column) != value}
    if "images" in changed:
        changed["images_at"] = now
    if changed:
        Node.objects.filter(pk=node.pk).update(updated_at=now, **changed)


def _leave(nodes: Iterable[Node], now: datetime) -> list[str]:
    """A node that holds something of ours stays until that is given back."""
    left = []
    for node in nodes:
        if node.allocations.exists():
            if node.closed != LEFT:
                Node.objects.filter(pk=node.pk).update(updated_at=now, closed=LEFT)
            continue
        node.delete()
        left.append(node.name)
    return left
