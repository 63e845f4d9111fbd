"""Plans what happens to containers that belong to no live task. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from clusters.engines.runtime import LABEL_GPUS, LABEL_PORTS, ContainerStatus, Look, Phase
from clusters.placement.fit import NodeView
from jobs.planning.settle import is_stale, may_order
from jobs.planning.world import Order, OrderKind, Plan, Quarantined, TaskView, World

STRANGER_GRACE = timedelta(seconds=30)
NOTHING: Quarantined = (frozenset(), frozenset())


def plan_leftovers(
    world: World, nodes: Collection[str], others: Mapping[str, Sequence[ContainerStatus]], made: Plan
) -> None:
    """Order that containers of ended tasks are collected, and that those of no task are removed after a grace period.
    ``nodes`` are the names of the registered ones, ``others`` by node the containers of no live task."""
    uncollected = {task.id for task in world.leftovers}
    for task in world.leftovers:
        seen = world.looks.get(task.node)
        if task.node not in nodes or _is_gone(world, task.node):
            made.collected.append(task.id)
        elif seen is not None and seen.reachable and may_order(task, seen, world.now) and _is_sure(task, seen):
            made.orders.append(Order(OrderKind.COLLECT, task.id, task.node, task.container_name))
    for name, seen in world.looks.items() if others else ():
        if name in others and name in nodes and (seen.reachable or (seen.silent and name in world.gone)):
            for container in others[name]:
                owner = world.owners.get(container.name)
                if owner is None or owner.task not in uncollected:
                    _stray(world, seen, container, made)


def _is_gone(world: World, node: str) -> bool:
    """Whether nothing is to be expected of a node any more. One that answers after all is there."""
    seen = world.looks.get(node)
    return node in world.gone and seen is not None and not seen.reachable


def _is_sure(task: TaskView, seen: Look) -> bool:
    """Whether the picture can be trusted here. What it shows is there; what is missing in a picture older than the row
    may not have been there yet."""
    return task.container_name in seen.containers or not is_stale(task, seen)


def _stray(world: World, seen: Look, container: ContainerStatus, made: Plan) -> None:
    """A container whose task was collected before is removed as soon as a picture younger than the task's row shows it:
    in an older picture it may be the one that has just been removed. A stranger is removed after a while."""
    node, owner = seen.node, world.owners.get(container.name)
    if owner is not None:
        if owner.read_at < seen.at:
            made.orders.append(Order(OrderKind.REMOVE, 0, node, container.name))
        return
    first = world.strangers.get((node, container.name), world.now)
    made.strangers[node, container.name] = first
    if world.now - first >= STRANGER_GRACE:
        made.orders.append(Order(OrderKind.REMOVE, 0, node, container.name))


def to_write(nodes: Sequence[NodeView], quarantine: Mapping[str, Quarantined]) -> dict[str, Quarantined]:
    """Return the quarantines, by node, that differ from what was last written down."""
    return {
        node.name: held for node in nodes if (held := quarantine.get(node.name, node.quarantined)) != node.quarantined
    }


def offered(nodes: Sequence[NodeView], quarantine: Mapping[str, Quarantined]) -> list[NodeView]:
    """Return the nodes with what is quarantined counted as taken."""
    return [
        replace(node, used_gpus=node.used_gpus | gpus, used_ports=node.used_ports | ports) if gpus or ports else node
        for node in nodes
        for gpus, ports in [quarantine.get(node.name, NOTHING)]
    ]


def quarantined(others: Sequence[ContainerStatus]) -> Quarantined:
    """Find the GPUs and ports that containers without an allocation use; they are not offered until the containers are
    seen gone. One that never ran is counted too: a pod holds its ports from the moment on that it has a place."""
    gpus: set[str] = set()
    ports: set[int] = set()
    for container in others:
        if container.phase is not Phase.EXITED:
            gpus.update(filter(None, container.labels.get(LABEL_GPUS, "").split(",")))
            ports.update(int(port) for port in container.labels.get(LABEL_PORTS, "").split(",") if port.isdigit())
    return frozenset(gpus), frozenset(ports)
