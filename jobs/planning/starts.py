"""How many containers may start on a node at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.placement.fit import NodeView
from jobs.planning.lifecycle import TaskState
from jobs.planning.settle import is_ordered
from jobs.planning.world import JobView, Kind, Plan, TaskView, World


def limit_starts(world: World, busy: Sequence[tuple[JobView, Sequence[TaskView]]], made: Plan) -> None:
    """Keep only as many start orders a node as it takes at once; the rest is ordered in later passes."""
    starts = _Starts(world.nodes)
    for _, tasks in busy:
        for task in tasks:
            if task.state is TaskState.STARTING and task.ordered_at and is_ordered(task, world.now):
                starts.take(task.node)
    for job_plan in made.jobs:
        job_plan.orders = [
            order for order in job_plan.orders if order.kind is not Kind.START or starts.take(order.node)
        ]
        for place in job_plan.places:
            if starts.take(place.node):
                job_plan.start_now.add((place.role, place.index))


class _Starts:
    """At most twice its cores are started on a node at once: beyond that an engine only queues."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._left = {node.name: max(2, 2 * node.cpus) for node in nodes}

    def take(self, node: str) -> bool:
        self._left[node] = self._left.get(node, 0) - 1
        return self._left[node] >= 0
