"""Containers that are kept after their command failed, because the job is for debugging (v1 contract, 5.8).

The task stays RUNNING and holds what it holds. It ends when its time is over (its own start script sees to that), when
the job is stopped, or when somebody releases it: an intent on the row, made an order here, again if it was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from clusters.engines.watch import Look
from jobs.models import Event, Task
from jobs.planning.lifecycle import TaskState
from jobs.planning.settle import is_claimed, may_order
from jobs.planning.world import Kind, Order
from jobs.scheduling import orders
from portal.wakes import wake
from portal.wakes.lease import Lease


def note(looks: Mapping[str, Look], now: datetime, lease: Lease) -> None:
    """Write down what is newly kept, and order the end of what was released. No query while nothing is kept."""
    codes = {name: seen.held_code for look in looks.values() for name, seen in look.containers.items() if seen.held}
    if not codes:
        return
    kept = Task.objects.filter(container_name__in=codes, state=TaskState.RUNNING).select_related("attempt")
    for task in kept:
        if task.held_at is None:
            _keep(task, codes[task.container_name], now, lease)
        elif task.released_at and _may_order(task, now):
            with lease.writing():
                orders.send([Order(Kind.RELEASE, task.pk, task.node, task.container_name)], now)


def _keep(task: Task, code: int | None, now: datetime, lease: Lease) -> None:
    how = "failed" if code is None else f"ended with exit code {code}"
    with lease.writing():
        fresh = Task.objects.filter(pk=task.pk, state=TaskState.RUNNING, held_at__isnull=True)
        if not fresh.update(held_at=now):
            return
        Event.objects.create(
            at=now,
            kind="task.held",
            job_id=task.job_id,
            attempt=task.attempt.number,
            task=task.label,
            node=task.node,
            reason=f"The command of {task.label} {how}. Its container is kept for debugging.",
        )
        wake.notify("pages")


def _may_order(task: Task, now: datetime) -> bool:
    """An order older than the release was another one's: it holds nothing up."""
    older = task.ordered_at and task.released_at and task.ordered_at < task.released_at
    return may_order(task, now) or (bool(older) and not is_claimed(task, now))
