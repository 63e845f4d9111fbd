"""Finds GPUs that running tasks hold and do not use: whose they are, and since when.

A GPU is idle when it was not busier than ``rates.IDLE`` percent for ``LONGSHORE_GPU_IDLE_AFTER`` seconds. Of GPUs that
nobody measures nothing is said.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import Q

from jobs.metrics import places, rates, ring
from jobs.metrics.layout import Mean
from jobs.metrics.rates import FRESH
from jobs.models import Task

_FIELDS = (
    *("job_id", "job__username", "job__name", "node", "role", "index", "gpu_ids"),
    *("attempt__app_id", "attempt__number"),
)


@dataclass(frozen=True, slots=True)
class GpuNow:
    """One GPU that a running task holds. ``util`` in percent and ``memory`` in bytes are None where nobody measures;
    ``idle_since`` is None unless it is idle."""

    job_id: int
    username: str
    job: str
    task: str
    node: str
    id: str
    util: float | None
    memory: float | None
    idle_since: datetime | None


def held_gpus(*, node: str = "", username: str = "", job_id: int = 0, now: float | None = None) -> list[GpuNow]:
    """Those that running tasks hold: on a node, of a user, of a job, or all. One query, and a small file of each
    task."""
    which = Q(state="RUNNING")
    which &= Q(node=node) if node else Q()
    which &= Q(job__username=username) if username else Q()
    which &= Q(job_id=job_id) if job_id else Q()
    rows = Task.objects.filter(which).exclude(gpu_ids=[]).order_by("id").values(*_FIELDS)
    return [gpu for row in rows for gpu in _gpus(row, now or time.time())]


def idle_gpus(**which: Any) -> list[GpuNow]:
    """Of ``held_gpus`` those that are idle, the longest first."""
    idle = [gpu for gpu in held_gpus(**which) if gpu.idle_since is not None]
    return sorted(idle, key=lambda gpu: gpu.idle_since or datetime.max.replace(tzinfo=UTC))


def _gpus(row: Mapping[str, Any], now: float) -> list[GpuNow]:
    found = ring.summary(places.of_task(row["attempt__app_id"], row["role"], row["index"]))
    columns = dict(zip(found[0], found[1].columns, strict=True)) if found else {}
    return [_gpu(row, str(id), columns, now) for id in row["gpu_ids"]]


def _gpu(row: Mapping[str, Any], id: str, columns: Mapping[str, Mean], now: float) -> GpuNow:
    util, memory = (columns.get(f"gpu{id}{what}") for what in ("Util", "Memory"))
    is_known = util is not None and now - util.known <= FRESH
    idle = rates.idle_since(util, now, settings.GPU_IDLE_AFTER) if util is not None else 0
    return GpuNow(
        job_id=row["job_id"],
        username=row["job__username"],
        job=row["job__name"],
        task=f"{row['role']}-{row['index']}",
        node=row["node"],
        id=id,
        util=util.last if util is not None and is_known else None,
        memory=memory.last if memory is not None and now - memory.known <= FRESH else None,
        idle_since=datetime.fromtimestamp(idle, UTC) if idle else None,
    )
