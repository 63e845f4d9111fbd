"""Writes what a task used, as the sampler does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobs.metrics import latest, places, rates, ring
from jobs.models import Task


def measured(task: Task, at: int, values: Sequence[float]) -> None:
    """``values``: of rates.columns_of its GPUs."""
    ids = [str(id) for id in task.gpu_ids]
    path = places.of_task(task.attempt.app_id, task.role, task.index)
    of_task = ring.write(path, rates.columns_of(ids), at, values, rates.IDLE)
    of_node = ring.write(places.of_node(task.node), rates.OF_A_NODE, at, [math.nan] * len(rates.OF_A_NODE))
    latest.write(task.node, at, of_node, {}, {task.pk: of_task})
