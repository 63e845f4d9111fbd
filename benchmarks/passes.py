"""How long a pass of the scheduler takes: the real load, plan and apply on a real SQLite file, the engines simulated.

Run as a process of its own with a LONGSHORE_HOME of its own (``python -m benchmarks.passes``); prints one JSON object.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django

NODES, GPUS, CPUS, MEMORY_MB, WAITING = 1_000, 8, 64, 512_000, 10_000
IDLE_PASSES = 15


class Simulation:
    """A scheduler whose engines start each container the moment it is placed."""

    def __init__(self) -> None:
        from clusters.models import Node
        from jobs.scheduler import Scheduler

        self.scheduler = Scheduler()
        self.scheduler.watch.keep_up = lambda nodes: None  # type: ignore[method-assign]  # nothing to watch
        self.running: dict[str, dict[str, Any]] = {name: {} for name in Node.objects.values_list("name", flat=True)}
        self._seen = 0

    def one_pass(self) -> tuple[float, int]:
        """Seconds it took, and how many tasks it placed."""
        from clusters.watch import Look
        from django.utils import timezone
        from jobs.models import Task

        now = timezone.now()
        looks = {name: Look(name, now, True, containers) for name, containers in self.running.items()}
        before = Task.objects.exclude(state="WAITING").count()
        began = time.perf_counter()
        self.scheduler.tick(looks, now + timedelta(milliseconds=1))
        took = time.perf_counter() - began
        self._start_containers()
        return took, Task.objects.exclude(state="WAITING").count() - before

    def _start_containers(self) -> None:
        from clusters.runtime import LABEL_TASK, ContainerStatus, Phase
        from django.utils import timezone
        from django_q.models import OrmQ
        from jobs.models import Task

        now = timezone.now()
        for id, node, name in Task.objects.filter(state="STARTING").values_list("id", "node", "container_name"):
            status = ContainerStatus(f"id{id}", name, Phase.RUNNING, {LABEL_TASK: str(id)}, started_at=now)
            self.running[node].setdefault(name, status)
        OrmQ.objects.all().delete()


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)
    print(json.dumps({"alike": _measure("alike"), "different": _measure("different")}))


def _measure(which: str) -> dict[str, Any]:
    """Waiting jobs are placed until no GPU is free; then nothing changes any more, and those are the idle passes."""
    from benchmarks import rows
    from clusters.models import Allocation, Node
    from django_q.models import OrmQ
    from jobs.models import Event, Job, Task

    for model in (Allocation, OrmQ, Event, Task, Job, Node):
        model.objects.all().delete()
    rows.add_nodes(NODES, gpus=GPUS, cpus=CPUS, memory_mb=MEMORY_MB)
    make: Callable[[int], list[dict[str, Any]]] = {"alike": rows.shapes_alike, "different": rows.shapes_different}[
        which
    ]
    rows.add_waiting(make(WAITING + NODES * GPUS))
    with_no_free_gpu = Simulation()
    placing = _until_nothing_is_placed(with_no_free_gpu)
    first, *idle = [with_no_free_gpu.one_pass()[0] for _ in range(IDLE_PASSES + 1)]
    placed = sum(count for _, count in placing)
    waiting = Job.objects.filter(state="WAITING").count()
    gpus = sum(len(ids) for ids in Allocation.objects.values_list("gpu_ids", flat=True))
    return {
        "waiting": waiting,
        "gpus_taken": gpus,
        "tasks_running": Task.objects.filter(state="RUNNING").count(),
        "placed": placed,
        "placements_per_s": placed / sum(seconds for seconds, _ in placing),
        "most_placed": max(count for _, count in placing),
        "first_ms": 1000 * placing[0][0],
        "placing_p50_ms": 1000 * statistics.median(seconds for seconds, _ in placing[1:]),
        "placing_max_ms": 1000 * max(seconds for seconds, _ in placing[1:]),
        "idle_p50_ms": 1000 * statistics.median(idle),
        "idle_p95_ms": 1000 * statistics.quantiles(idle, n=20)[-1],
    }


def _until_nothing_is_placed(simulation: Simulation) -> list[tuple[float, int]]:
    placing: list[tuple[float, int]] = []
    while not placing or placing[-1][1]:
        placing.append(simulation.one_pass())
    return placing[:-1]


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    sys.exit(main())
