"""What it costs to sample a thousand running tasks: the real sampler, and twenty small engines behind real HTTP.

Run as a process of its own with a LONGSHORE_HOME of its own (``python -m benchmarks.sampling [nodes] [tasks]``); prints
one JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import django

from benchmarks.watch import cpu_of, farm_of, rows, told

NODES, TASKS = 20, 50  # tasks of each node
SETTLE, MEASURE = 25.0, 60.0  # seconds


def main() -> None:
    nodes, each = (int(text) for text in [*sys.argv[1:], NODES, TASKS][:2]) if len(sys.argv) == 3 else (NODES, TASKS)
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)
    tasks = rows(nodes, each)
    farm = farm_of(nodes, tasks)
    sampler = subprocess.Popen(
        [sys.executable, "manage.py", "runsampler"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings"},
        stdout=subprocess.DEVNULL,
    )
    try:
        time.sleep(SETTLE)
        print(json.dumps({"nodes": nodes, "tasks": nodes * each, **_cost(sampler.pid, farm)}))
    finally:
        for process in (sampler, farm):
            process.terminate()
            process.wait(30)


def _cost(pid: int, farm: subprocess.Popen[str]) -> dict[str, Any]:
    before, used, began, since = json.loads(told(farm, "asked")), cpu_of(pid), time.monotonic(), time.time()
    time.sleep(MEASURE)
    seconds = time.monotonic() - began
    cpu, after = 100 * (cpu_of(pid) - used) / seconds, json.loads(told(farm, "asked"))
    return {
        "cpu_percent": cpu,
        "asked_per_s": round((after.get("stats", 0) - before.get("stats", 0)) / seconds, 1),
        "pss_mb": _kilobytes(f"/proc/{pid}/smaps_rollup", "Pss") / 1024,
        "rss_mb": _kilobytes(f"/proc/{pid}/status", "VmRSS") / 1024,
        "threads": _kilobytes(f"/proc/{pid}/status", "Threads"),
        **_written(since, time.time()),
    }


def _written(begin: float, end: float) -> dict[str, Any]:
    """How many of the samples that were due are in the files, and what the files take on the disk."""
    from jobs.metrics import places, ring
    from jobs.models import Task

    first, last = int(begin) // 10 * 10 + 10, int(end) // 10 * 10 - 10
    found = due = size = 0
    for app_id, role, index in Task.objects.values_list("attempt__app_id", "role", "index"):
        path = places.of_task(app_id, role, index)
        contents = ring.read(path, first, last)
        found += len(contents.buckets) if contents else 0
        due += (last - first) // 10
        size += path.stat().st_blocks * 512 if path.exists() else 0
    return {"samples": found, "due": due, "disk_kb_each": size / 1024 / max(1, Task.objects.count())}


def _kilobytes(path: str, name: str) -> int:
    return int(Path(path).read_text().partition(f"{name}:")[2].split()[0])


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    main()
