"""How long a pass of the scheduler takes: the real load, plan and apply on a real SQLite file, the engines simulated.

Run as a process with a LONGSHORE_HOME of its own (``python -m benchmarks.scheduler.passes teams 1000``); prints one
JSON object.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import django

from benchmarks.report import percentile

NODES, GPUS, CPUS, MEMORY_MB, WAITING = 1_000, 8, 64, 512_000, 10_000
TEAMS = 8
# About as many jobs as find room on NODES; the queue of "teams" has virtual clusters with ceilings and caps, gangs that
# wait for room that is kept for them, jobs that may be guests, and lengths from which ends are forecast.
EXTRA = {"alike": 8_000, "different": 2_000, "gangs": 2_000, "teams": 3_100}
IDLE_PASSES = 10
LOSING_PASSES = 3  # of the many that it takes to tell every job


@dataclass(frozen=True, slots=True)
class Pass:
    """``cpu`` are the seconds that it had a core; the rest it waited for one."""

    seconds: float
    cpu: float
    placed: int  # tasks
    jobs: int


class Simulation:
    """A scheduler whose engines start each container the moment it is placed."""

    def __init__(self) -> None:
        from clusters.models import Node
        from jobs.scheduling.garbage import Garbage
        from jobs.scheduling.loop import Scheduler

        Garbage().begin()
        self.scheduler = Scheduler()
        self.scheduler.lease.try_take()
        self.scheduler.watch.keep_up = lambda nodes: None  # type: ignore[method-assign]  # nothing to watch
        self.running: dict[str, dict[str, Any]] = {name: {} for name in Node.objects.values_list("name", flat=True)}
        self._seen = 0

    def one_pass(self, *, anew: bool = False) -> Pass:
        """``anew``: the turns are worked out, whether anything has changed or not."""
        from base.core import clock
        from clusters.engines.runtime import Look
        from jobs.models import Task

        now = clock.monotonic_now()
        if anew:
            self.scheduler._unchanged = None
        looks = {name: Look(name, now, True, containers) for name, containers in self.running.items()}
        before = Task.objects.exclude(state="WAITING").count()
        began, used = time.perf_counter(), time.process_time()
        jobs = self.scheduler.tick(looks)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        self._start_containers()
        return Pass(seconds, cpu, Task.objects.exclude(state="WAITING").count() - before, jobs)

    def lose_everything(self) -> None:
        """Each engine has started anew and has nothing."""
        for name in self.running:
            self.running[name] = {}

    def end_everything(self) -> None:
        """The command of each container ends with 0."""
        from django.utils import timezone

        from clusters.engines.runtime import Phase

        for name, containers in self.running.items():
            self.running[name] = {
                each: replace(status, phase=Phase.EXITED, exit_code=0, finished_at=timezone.now(), by_itself=True)
                for each, status in containers.items()
            }

    def _start_containers(self) -> None:
        from django.utils import timezone
        from django_q.models import OrmQ

        from clusters.engines.runtime import LABEL_TASK, ContainerStatus, Phase
        from jobs.models import Task

        now = timezone.now()
        for id, node, name in Task.objects.filter(state="STARTING").values_list("id", "node", "container_name"):
            status = ContainerStatus(f"id{id}", name, Phase.RUNNING, {LABEL_TASK: str(id)}, started_at=now)
            if name not in self.running[node]:  # another mapping, as each list of a real engine is
                self.running[node] = {**self.running[node], name: status}
        OrmQ.objects.all().delete()


def main() -> None:
    django.setup()
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))


def _configs(which: str, number: int) -> list[dict[str, Any]]:
    from benchmarks.data import rows

    if which == "teams":
        names = rows.add_teams(TEAMS)
        rows.add_lengths(names)
        return rows.shapes_of_teams(number, names)
    if which == "gangs":
        return rows.shapes_alike(number, tasks=4)
    return {"alike": rows.shapes_alike, "different": rows.shapes_different}[which](number)


def _measure(which: str, nodes: int) -> dict[str, Any]:
    """Waiting jobs are placed until no GPU is free; then nothing changes any more, and those are the idle passes."""
    from benchmarks.data import rows
    from clusters.models import Allocation, VirtualCluster
    from jobs.models import Job, Task

    VirtualCluster.objects.all().delete()
    rows.add_nodes(nodes, gpus=GPUS, cpus=CPUS, memory_mb=MEMORY_MB)
    rows.add_waiting(_configs(which, (WAITING + EXTRA[which]) * nodes // NODES))
    with_no_free_gpu = Simulation()
    placing = _until_nothing_is_placed(with_no_free_gpu)
    idle = [with_no_free_gpu.one_pass() for _ in range(IDLE_PASSES + 2)][2:]  # the last starts have settled
    anew = [with_no_free_gpu.one_pass(anew=True) for _ in range(IDLE_PASSES)]
    placed = sum(one.placed for one in placing)
    later = placing[1:] or placing  # the first pass of a process reads every job; few jobs need no other
    placed_later = sum(one.placed for one in later)
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
        "placements_per_s": placed_later / sum(one.seconds for one in later),
        "placements_per_cpu_s": placed_later / sum(one.cpu for one in later),
        "most_placed": max(one.placed for one in placing),
        "first_ms": 1000 * placing[0].seconds,
        "filled_s": sum(one.seconds for one in placing),
        "placing_p50_ms": 1000 * statistics.median(one.seconds for one in later),
        "placing_max_ms": 1000 * max(one.seconds for one in later),
        "losing_max_ms": 1000 * max(one.seconds for one in losing),
        "losing_cpu_ms": 1000 * max(one.cpu for one in losing),
        "lost": Task.objects.filter(state="FAILED").count(),
        "idle_p50_ms": 1000 * statistics.median(one.seconds for one in idle),
        "idle_p95_ms": 1000 * statistics.quantiles([one.seconds for one in idle], n=20)[-1],
        "idle_cpu_ms": 1000 * statistics.median(one.cpu for one in idle),
        "anew_cpu_ms": 1000 * statistics.median(one.cpu for one in anew),
        "nodes": nodes,
        "jobs_per_cpu_s": sum(one.jobs for one in later) / sum(one.cpu for one in later),
        "placing_p99_cpu_ms": 1000 * percentile([one.cpu for one in later], 99),
    }


def _until_nothing_is_placed(simulation: Simulation) -> list[Pass]:
    from jobs.scheduling.garbage import Garbage

    placing: list[Pass] = []
    while not placing or placing[-1].placed:
        placing.append(simulation.one_pass())
        if len(placing) == 1:
            Garbage().freeze()  # as after the first pass of a process
    return placing[:-1]


if __name__ == "__main__":
    main()
