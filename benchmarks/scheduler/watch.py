"""What it costs to watch a thousand nodes: the real scheduler, and a thousand small engines behind real HTTP.

Run as a process with a LONGSHORE_HOME of its own (``python -m benchmarks.scheduler.watch``); prints one JSON
object.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import Any

import django

from benchmarks.processes import cpu_of, told_of
from benchmarks.report import percentile
from benchmarks.scheduler.engine_farm import free_ports
from benchmarks.sizes import size

NODES, TASKS = size(1_000, 3), 4  # tasks of each node
SETTLE, MEASURE = size((31.0, 30.0), (0.5, 0.5))  # seconds; a running container is looked at every 30
EVENTS, PAUSE = size(60, 3), 0.1
FIRST_LOOKS = 600.0  # seconds: on a machine whose cores others have a thousand first looks take minutes


def main() -> None:
    django.setup()
    tasks = rows(NODES)
    farm = farm_of(NODES, tasks)
    scheduler = subprocess.Popen(
        [sys.executable, "manage.py", "runscheduler"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        began = time.monotonic()
        _until_all_seen(NODES)
        ready = time.monotonic() - began
        time.sleep(SETTLE)
        idle = _idle(scheduler.pid, farm)
        print(
            json.dumps(
                {
                    "nodes": NODES,
                    "tasks": NODES * TASKS,
                    "ready_s": ready,
                    **idle,
                    **_events(scheduler.pid, farm, tasks, idle["cpu_percent"]),
                }
            )
        )
    finally:
        for process in (scheduler, farm):
            process.kill()
            process.wait()


def rows(number: int, each: int = TASKS) -> list[list[Any]]:
    """Nodes with running tasks; the tasks of each."""
    from django.conf import settings
    from django.db import transaction

    from clusters.engines import runtime
    from clusters.models import Node
    from jobs.models import Task
    from tests.builders import make_job, make_node

    tasks = []
    with transaction.atomic():
        for at, port in enumerate(free_ports(number)):
            node = make_node(f"farm-{at:04}", cpus=64, memory_mb=512 << 10, endpoint=f"tcp://127.0.0.1:{port}")
            make_job(f"user{at % 20}", f"job-{at}", state="RUNNING", tasks=each, node=node)
        Node.objects.update(surveyed_at=None, engine_id="")
    labels = {runtime.LABEL_INSTANCE: settings.INSTANCE}
    names = list(Node.objects.order_by("id").values_list("name", flat=True))
    by_node: dict[str, list[Any]] = {}
    for task in Task.objects.select_related("job", "attempt"):
        by_node.setdefault(task.node, []).append(
            {
                "Id": f"{task.pk:064x}",
                "Names": [f"/{task.container_name}"],
                "Labels": {**labels, runtime.LABEL_TASK: str(task.pk), runtime.LABEL_JOB: f"{task.job.username}~j",
                           runtime.LABEL_APP: task.attempt.app_id, runtime.LABEL_ATTEMPT: "1"},
            }
        )  # fmt: skip
    tasks = [by_node.get(name, []) for name in names]
    return tasks


def farm_of(number: int, tasks: list[list[Any]]) -> subprocess.Popen[str]:
    """The engines of the registered nodes, which run these tasks."""
    from clusters.models import Node

    endpoints = Node.objects.order_by("id").values_list("endpoint", flat=True)
    command = [sys.executable, "-m", "benchmarks.scheduler.engine_farm", str(number)]
    farm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert farm.stdin is not None and farm.stdout is not None
    for endpoint, rows in zip(endpoints, tasks, strict=True):
        farm.stdin.write(json.dumps([int(endpoint.rpartition(":")[2]), rows]) + "\n")
    farm.stdin.flush()
    assert farm.stdout.readline(), "the farm did not start"
    return farm


def told(farm: subprocess.Popen[str], line: str) -> str:
    assert farm.stdin is not None and farm.stdout is not None
    farm.stdin.write(line + "\n")
    farm.stdin.flush()
    return farm.stdout.readline()


def _until_all_seen(number: int) -> None:
    from django.utils import timezone

    from clusters.models import Node

    begun, deadline = timezone.now(), time.monotonic() + FIRST_LOOKS
    while Node.objects.filter(last_seen_at__gt=begun, health="ready").count() < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{Node.objects.filter(last_seen_at__gt=begun).count()} nodes were seen")
        time.sleep(0.5)


def _idle(pid: int, farm: subprocess.Popen[str]) -> dict[str, Any]:
    before, used, began = json.loads(told(farm, "asked")), cpu_of(pid), time.monotonic()
    time.sleep(MEASURE)
    seconds = time.monotonic() - began
    cpu, after = 100 * (cpu_of(pid) - used) / seconds, json.loads(told(farm, "asked"))
    asked = {kind: round((times - before.get(kind, 0)) / seconds, 1) for kind, times in after.items()}
    threads, memory = told_of(pid, "Threads"), told_of(pid, "VmRSS") / 1024
    return {"cpu_percent": cpu, "threads": threads, "memory_mb": memory, "asked_per_s": asked}


def _events(pid: int, farm: subprocess.Popen[str], tasks: list[list[Any]], idle: float) -> dict[str, Any]:
    """From the end of a container until the row of its task says so; and the CPU beside that of doing nothing."""
    from jobs.models import Task

    chosen = random.Random(1).sample(range(len(tasks)), min(EVENTS, len(tasks)))
    took, used, start = [], cpu_of(pid), time.monotonic()
    for node in chosen:
        id = tasks[node][0]["Id"]
        began = time.monotonic()
        told(farm, f"{node} {id}")
        while Task.objects.filter(pk=int(id, 16), state="RUNNING").exists() and time.monotonic() - began < 20:
            time.sleep(0.004)
        took.append(time.monotonic() - began)
        time.sleep(PAUSE)
    more = cpu_of(pid) - used - idle / 100 * (time.monotonic() - start)
    return {
        "event_cpu_ms": 1000 * more / len(took),
        "event_p50_ms": 1000 * percentile(took, 50),
        "event_p95_ms": 1000 * percentile(took, 95),
        "event_max_ms": 1000 * max(took),
    }


if __name__ == "__main__":
    main()
