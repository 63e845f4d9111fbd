"""Plans what happens to containers that belong to no live task. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from clusters.engines.runtime import LABEL_GPUS, LABEL_PORTS, ContainerStatus, Phase
from jobs.planning.lifecycle import TASK_LIVE
from jobs.planning.settle import is_stale, may_order
from jobs.planning.world import Held, Kind, Observation, Order, Plan, TaskView, World

STRANGER_GRACE = timedelta(seconds=30)
NOTHING: Held = (frozenset(), frozenset())


def plan_leftovers(world: World, nodes: Collection[str], made: Plan) -> None:
    """Containers of ended tasks are collected; those that belong to no task are removed after a grace period.
    ``nodes`` are the names of the registered ones."""
    uncollected = {task.id for task in world.leftovers}
    for task in world.leftovers:
        seen = world.observations.get(task.node)
        if task.node not in nodes or _is_gone(world, task.node):
            made.collected.append(task.id)
        elif seen is not None and seen.reachable and may_order(task, seen, world.now) and _is_sure(task, seen):
            made.orders.append(Order(Kind.COLLECT, task.id, task.node, task.container_name))
    live = {task.container_name for _, tasks in world.live for task in tasks if task.state in TASK_LIVE}
    for name, seen in world.observations.items():
        others = [container for container in seen.containers.values() if container.name not in live]
        made.quarantine[name] = _quarantined(others) if others else NOTHING
        if (seen.reachable or (seen.silent and name in world.gone)) and name in nodes:
            for container in others:
                owner = world.owners.get(container.name)
                if owner is None or owner.task not in uncollected:
                    _stray(world, seen, container, made)
    made.to_write = {
        node.name: found for node in world.nodes if (found := made.quarantine.get(node.name, node.held)) != node.held
    }


def _is_gone(world: World, node: str) -> bool:
    """Whether nothing is to be expected of a node any more. One that answers after all is there."""
    seen = world.observations.get(node)
    return node in world.gone and seen is not None and not seen.reachable


def _is_sure(task: TaskView, seen: Observation) -> bool:
    """Whether the picture can be trusted here. What it shows is there; what is missing in a picture older than the row
    may not have been there yet."""
    return task.container_name in seen.containers or not is_stale(task, seen)


def _stray(world: World, seen: Observation, container: ContainerStatus, made: Plan) -> None:
    """A container whose task was collected before is removed as soon as a picture younger than the task's row shows it:
    in an older picture it may be the one that has just been removed. A stranger is removed after a while."""
    node, owner = seen.node, world.owners.get(container.name)
    if owner is not None:
        if owner.read_at < seen.at:
            made.orders.append(Order(Kind.REMOVE, 0, node, container.name))
        return
    first = world.strangers.get((node, container.name), world.now)
    made.strangers[node, container.name] = first
    if world.now - first >= STRANGER_GRACE:
        made.orders.append(Order(Kind.REMOVE, 0, node, container.name))


def _quarantined(others: Sequence[ContainerStatus]) -> Held:
    """GPUs and ports that containers without an allocation use are not offered until the containers are seen gone."""
    gpus: set[str] = set()
    ports: set[int] = set()
    for container in others:
        if container.phase is Phase.RUNNING:
            gpus.update(filter(None, container.labels.get(LABEL_GPUS, "").split(",")))
            ports.update(int(port) for port in container.labels.get(LABEL_PORTS, "").split(",") if port.isdigit())
    return frozenset(gpus), frozenset(ports)
