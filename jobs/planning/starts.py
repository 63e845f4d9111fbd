"""How many containers may start on a node at once. Pure.

The scheduler counts, which gives all orders: so it holds for the workers of all hosts together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from clusters.placement.pace import Pace
from jobs.planning.lifecycle import TaskState
from jobs.planning.settle import is_claimed
from jobs.planning.world import LiveJob, OrderKind, Plan, TaskView, World

_UNKNOWN = Pace()
CORES = 2  # starts at once for each core: beyond that an engine only queues


def limit_starts(world: World, busy: Sequence[LiveJob], made: Plan, before: Mapping[str, Pace]) -> None:
    """Keep only as many start orders a node as it takes at once; the rest is ordered in later passes. ``before``: the
    paces of the last plan."""
    cpus = {node.name: node.cpus for node in world.nodes}
    known = {name: pace for name, pace in before.items() if name in cpus}
    starts = {name: _Starts(cpus[name], pace) for name, pace in known.items() if pace.under_way}

    def of(node: str) -> _Starts:
        if node not in starts:
            starts[node] = _Starts(cpus.get(node, 0), known.get(node, _UNKNOWN))
        return starts[node]

    for _, tasks in busy:
        for task in tasks:
            if task.node in cpus and task.state is TaskState.STARTING and not task.container_id and not task.fault:
                of(task.node).note(task, world.now)
    for node_starts in starts.values():  # where nothing is under way the pace stays as it is
        node_starts.pace = node_starts.pace.after(world.now, node_starts.under_way, node_starts.pulling)
        node_starts.under_way = dict(node_starts.pace.under_way)

    for job_plan in made.jobs:
        job_plan.orders = [
            order
            for order in job_plan.orders
            if order.kind is not OrderKind.START or of(order.node).take(order.task, world.now)
        ]
        for place in job_plan.placements:
            if of(place.node).take(0, world.now):
                job_plan.start_now.add((place.role, place.index))
    paces = ((name, replace(node_starts.pace, under_way=node_starts.under_way)) for name, node_starts in starts.items())
    made.paces = known
    if starts:
        made.paces = {name: pace for name, pace in (known | dict(paces)).items() if pace != _UNKNOWN}


class _Starts:
    """The starts of one node."""

    def __init__(self, cpus: int, pace: Pace) -> None:
        self.pace = pace
        self.under_way: dict[int, datetime] = {}
        self.pulling: set[int] = set()
        self._most = max(2, CORES * cpus)
        self._new = 0

    def note(self, task: TaskView, now: datetime) -> None:
        if task.progress and is_claimed(task, now):
            self.pulling.add(task.id)
        elif task.ordered_at:
            self.under_way[task.id] = task.ordered_at

    def take(self, task: int, now: datetime) -> bool:
        """Count one more start of the node, and say whether it may begin now. A start that was ordered before, and got
        lost, has its place."""
        if task in self.under_way or task in self.pulling:
            return True
        asked = len(self.under_way) + self._new
        if asked >= min(self._most, int(self.pace.limit)) or asked + len(self.pulling) >= self._most:
            return False
        if task:
            self.under_way[task] = now
        else:
            self._new += 1  # its row has no number yet
        return True
