"""How long a pass of the scheduler takes: the real load, plan and apply on a real SQLite file, the engines simulated.

Run as a process of its own with a LONGSHORE_HOME of its own (``python -m benchmarks.passes``); prints one JSON object.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import django

NODES, GPUS, CPUS, MEMORY_MB, WAITING = 1_000, 8, 64, 512_000, 10_000
EXTRA = {"alike": 8_000, "different": 2_000}  # about as many jobs as find room
IDLE_PASSES = 10
LOSING_PASSES = 3  # of the many that it takes to tell every job


@dataclass(frozen=True, slots=True)
class Pass:
    """``cpu`` are the seconds that it had a core; the rest it waited for one."""

    seconds: float
    cpu: float
    placed: int


class Simulation:
    """A scheduler whose engines start each container the moment it is placed."""

    def __init__(self) -> None:
        from clusters.models import Node
        from jobs.scheduling.loop import GARBAGE, Scheduler

        gc.set_threshold(*GARBAGE)
        self.scheduler = Scheduler()
        self.scheduler.lease.try_take()
        self.scheduler.watch.keep_up = lambda nodes: None  # type: ignore[method-assign]  # nothing to watch
        self.running: dict[str, dict[str, Any]] = {name: {} for name in Node.objects.values_list("name", flat=True)}
        self._seen = 0

    def one_pass(self) -> Pass:
        from clusters.engines.watch import Look
        from jobs.models import Task
        from portal.core import clock

        now = clock.steady()
        looks = {name: Look(name, now, True, containers) for name, containers in self.running.items()}
        before = Task.objects.exclude(state="WAITING").count()
        began, used = time.perf_counter(), time.process_time()
        self.scheduler.tick(looks)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        self._start_containers()
        return Pass(seconds, cpu, Task.objects.exclude(state="WAITING").count() - before)

    def lose_everything(self) -> None:
        """Each engine has started anew and has nothing."""
        for containers in self.running.values():
            containers.clear()

    def _start_containers(self) -> None:
        from django.utils import timezone
        from django_q.models import OrmQ

        from clusters.engines.runtime import LABEL_TASK, ContainerStatus, Phase
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
    from django_q.models import OrmQ

    from benchmarks import rows
    from clusters.models import Allocation, Node
    from jobs.models import Attempt, Event, Holding, Job, Task

    for model in (Allocation, OrmQ, Holding, Event, Task, Attempt, Job, Node):
        model.objects.all()._raw_delete("default")  # type: ignore[attr-defined]  # no cascade: its own models only
    rows.add_nodes(NODES, gpus=GPUS, cpus=CPUS, memory_mb=MEMORY_MB)
    make = {"alike": rows.shapes_alike, "different": rows.shapes_different}[which]
    rows.add_waiting(make(WAITING + EXTRA[which]))
    with_no_free_gpu = Simulation()
    placing = _until_nothing_is_placed(with_no_free_gpu)
    idle = [with_no_free_gpu.one_pass() for _ in range(IDLE_PASSES + 2)][2:]  # the last starts have settled
    placed = sum(one.placed for one in placing)
    placed_later = placed - placing[0].placed  # the first pass of a process reads every job
    running = Task.objects.filter(state="RUNNING").count()
    waiting = Job.objects.filter(state="WAITING").count()
    gpus = sum(len(ids) for ids in Allocation.objects.values_list("gpu_ids", flat=True))
    with_no_free_gpu.lose_everything()
    losing = [with_no_free_gpu.one_pass() for _ in range(LOSING_PASSES)]
    return {
        "waiting": waiting,
        "gpus_taken": gpus,
        "tasks_running": running,
        "placed": placed,
        "placements_per_s": placed_later / sum(one.seconds for one in placing[1:]),
        "placements_per_cpu_s": placed_later / sum(one.cpu for one in placing[1:]),
        "most_placed": max(one.placed for one in placing),
        "first_ms": 1000 * placing[0].seconds,
        "placing_p50_ms": 1000 * statistics.median(one.seconds for one in placing[1:]),
        "placing_max_ms": 1000 * max(one.seconds for one in placing[1:]),
        "losing_max_ms": 1000 * max(one.seconds for one in losing),
        "losing_cpu_ms": 1000 * max(one.cpu for one in losing),
        "lost": Task.objects.filter(state="FAILED").count(),
        "idle_p50_ms": 1000 * statistics.median(one.seconds for one in idle),
        "idle_p95_ms": 1000 * statistics.quantiles([one.seconds for one in idle], n=20)[-1],
        "idle_cpu_ms": 1000 * statistics.median(one.cpu for one in idle),
    }


def _until_nothing_is_placed(simulation: Simulation) -> list[Pass]:
    placing: list[Pass] = []
    while not placing or placing[-1].placed:
        placing.append(simulation.one_pass())
    return placing[:-1]


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    sys.exit(main())
