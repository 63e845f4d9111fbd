"""Finds GPUs that running tasks hold and do not use: whose they are, and since when; and says what jobs use now.

A GPU is idle when it was not busier than ``rates.IDLE`` percent for ``LONGSHORE_GPU_IDLE_AFTER`` seconds. Of GPUs that
nobody measures nothing is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from django.conf import settings
from django.db.models import QuerySet

from base.core import words
from base.core.bulk import values_of
from jobs.metrics import latest
from jobs.metrics.latest import Latest, of_task
from jobs.models import Task

FIRST, MOST = 4, 200  # tasks of a role, and of all jobs, that are asked what they use
Known = Callable[[str], Latest]  # of a node


@dataclass(frozen=True, slots=True)
class _Holder:
    """A running task."""

    id: int
    job_id: int
    job__username: str
    job__name: str
    node: str
    role: str
    index: int
    gpu_ids: Sequence[int | str]


class GpuNow(NamedTuple):
    """One GPU that a running task holds. ``util`` in percent and ``memory`` in bytes are None where nobody measures;
    ``idle_since`` is None unless it is idle."""

    username: str
    job: str
    task: str
    node: str
    id: str
    util: float | None
    memory: float | None
    idle_since: datetime | None


def held_gpus(*, node: str = "", username: str = "", known: Known = latest.read) -> list[GpuNow]:
    """Those that running tasks hold: on a node, of a user, or all. One query, and a small file of each node."""
    tasks = Task.live().filter(state="RUNNING").exclude(gpu_ids=[]).order_by("id")
    tasks = tasks.filter(node=node) if node else tasks
    tasks = tasks.filter(job__username=username) if username else tasks
    return [gpu for _, _, gpus in _read(tasks, known) for gpu in gpus]


def use_of(jobs: Collection[int]) -> dict[int, tuple[str, bool]]:
    """What the running tasks of each job use, in a few words, and whether it holds GPUs and uses none. Nothing is said
    of jobs that nobody measures now. One query, and a small file of each node of MOST tasks."""
    tasks = Task.objects.filter(job_id__in=jobs, state="RUNNING", index__lt=FIRST).order_by("id")
    now = time.time()
    gpus: dict[int, list[GpuNow]] = {}
    cores: dict[int, float] = {}
    for task, known, held in _read(tasks[:MOST], latest.read):
        gpus.setdefault(task.job_id, []).extend(held)
        if (cpu := known.now(of_task(task.id, "cpu"), now)) is not None:
            cores[task.job_id] = cores.get(task.job_id, 0.0) + cpu
    busy = {job: (f"{used:.1f} cores busy", False) for job, used in cores.items() if not gpus[job]}
    return busy | {job: said for job, held in gpus.items() if (said := _said(held, now))}


def _said(held: Sequence[GpuNow], now: float) -> tuple[str, bool] | None:
    since = [gpu.idle_since for gpu in held if gpu.idle_since is not None]
    if since and len(since) == len(held):
        return f"GPUs idle for {words.duration(now - max(since).timestamp())}", True
    known = [gpu.util for gpu in held if gpu.util is not None]
    return (f"GPUs {sum(known) / len(known):.0f} % busy", False) if known else None


def _read(tasks: QuerySet[Task], known: Known) -> Iterator[tuple[_Holder, Latest, list[GpuNow]]]:
    """The tasks, what was measured last on the node of each, and its GPUs."""
    now, of_node = time.time(), cache(known)
    for values in values_of(tasks.values_list(*[field.name for field in fields(_Holder)])):
        task = _Holder(*values)
        there = of_node(task.node)
        yield task, there, [_gpu(task, str(id), there, now) for id in task.gpu_ids]


def _gpu(task: _Holder, id: str, there: Latest, now: float) -> GpuNow:
    util = of_task(task.id, f"gpu{id}Util")
    idle = there.idle_since(util, now, settings.GPU_IDLE_AFTER)
    return GpuNow(
        username=task.job__username,
        job=task.job__name,
        task=f"{task.role}-{task.index}",
        node=task.node,
        id=id,
        util=there.now(util, now),
        memory=there.now(of_task(task.id, f"gpu{id}Memory"), now),
        idle_since=datetime.fromtimestamp(idle, UTC) if idle else None,
    )
