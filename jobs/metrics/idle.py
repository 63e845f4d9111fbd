"""Finds GPUs that running tasks hold and do not use: whose they are, and since when; and says what jobs use now.

A GPU is idle when it was not busier than ``rates.IDLE`` percent for ``LONGSHORE_GPU_IDLE_AFTER`` seconds. Of GPUs that
nobody measures nothing is said.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from base.core import words
from jobs.metrics import places, rates, ring
from jobs.metrics.layout import Mean
from jobs.metrics.rates import FRESH
from jobs.models import Task

FIRST, MOST = 4, 200  # tasks of a role, and of all jobs, that are asked what they use
_FIELDS = (
    *("job_id", "job__username", "job__name", "node", "role", "index", "gpu_ids"),
    *("attempt__app_id", "attempt__number"),
)


@dataclass(frozen=True, slots=True)
class GpuNow:
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


def held_gpus(*, node: str = "", username: str = "") -> list[GpuNow]:
    """Those that running tasks hold: on a node, of a user, or all. One query, and a small file of each task."""
    tasks = Task.live().filter(state="RUNNING").exclude(gpu_ids=[]).order_by("id")
    tasks = tasks.filter(node=node) if node else tasks
    tasks = tasks.filter(job__username=username) if username else tasks
    rows, now = tasks.values(*_FIELDS), time.time()
    return [_gpu(row, str(id), columns, now) for row in rows for columns in [_columns(row)] for id in row["gpu_ids"]]


def use_of(jobs: Collection[int]) -> dict[int, tuple[str, bool]]:
    """What the running tasks of each job use, in a few words, and whether it holds GPUs and uses none. Nothing is said
    of jobs that nobody measures now. One query, and MOST small files."""
    tasks = Task.objects.filter(job_id__in=jobs, state="RUNNING", index__lt=FIRST)
    now = time.time()
    gpus: dict[int, list[GpuNow]] = {}
    cores: dict[int, float] = {}
    for row in tasks.order_by("id").values(*_FIELDS)[:MOST]:
        columns, job = _columns(row), row["job_id"]
        gpus.setdefault(job, []).extend(_gpu(row, str(id), columns, now) for id in row["gpu_ids"])
        if (cpu := columns.get("cpu")) is not None and now - cpu.known <= FRESH:
            cores[job] = cores.get(job, 0.0) + cpu.last
    busy = {job: (f"{used:.1f} cores busy", False) for job, used in cores.items() if not gpus[job]}
    return busy | {job: said for job, held in gpus.items() if (said := _said(held, now))}


def _said(held: Sequence[GpuNow], now: float) -> tuple[str, bool] | None:
    since = [gpu.idle_since for gpu in held if gpu.idle_since is not None]
    if since and len(since) == len(held):
        return f"GPUs idle for {words.duration(now - max(since).timestamp())}", True
    known = [gpu.util for gpu in held if gpu.util is not None]
    return (f"GPUs {sum(known) / len(known):.0f} % busy", False) if known else None


def _columns(row: Mapping[str, Any]) -> Mapping[str, Mean]:
    summary = ring.summary(places.of_task(row["attempt__app_id"], row["role"], row["index"]))
    return summary.columns if summary else {}


def _gpu(row: Mapping[str, Any], id: str, columns: Mapping[str, Mean], now: float) -> GpuNow:
    util, memory = (columns.get(f"gpu{id}{what}") for what in ("Util", "Memory"))
    is_known = util is not None and now - util.known <= FRESH
    idle = rates.idle_since(util, now, settings.GPU_IDLE_AFTER) if util is not None else 0
    return GpuNow(
        username=row["job__username"],
        job=row["job__name"],
        task=f"{row['role']}-{row['index']}",
        node=row["node"],
        id=id,
        util=util.last if util is not None and is_known else None,
        memory=memory.last if memory is not None and now - memory.known <= FRESH else None,
        idle_since=datetime.fromtimestamp(idle, UTC) if idle else None,
    )
