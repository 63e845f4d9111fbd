"""What it costs to sample a thousand running tasks: the real sampler, and twenty small engines behind real HTTP.

What is measured runs in a process and a LONGSHORE_HOME of its own, which prints one JSON object:
``python -m benchmarks.running_jobs.sampling``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import django

from benchmarks.processes import alone, cpu_of, told_of
from benchmarks.report import Report
from benchmarks.scheduler.watch import farm_of, rows, told
from benchmarks.sizes import size

NODES, TASKS = size((20, 50), (2, 2))  # tasks of each node
SETTLE, MEASURE = size((25.0, 60.0), (1.0, 31.0))  # seconds; of each task there is a sample every ten


def measure(report: Report) -> None:
    found = alone("benchmarks.running_jobs.sampling")
    report.title(f"Sampling {found['tasks']:,} running tasks on {found['nodes']} engines over HTTP, every 10 s")
    cpu, memory = found["cpu_percent"], found["pss_mb"]
    asked = f"{found['asked_per_s']:g} questions a second"
    report.add("CPU of the sampler", f"{cpu:.1f} % of a core", asked, "<= 10 %", cpu <= 10)
    beside = f"{found['rss_mb']:.0f} MB with what it shares; {found['threads']} threads"
    report.add("its memory (PSS)", f"{memory:.0f} MB", beside, "<= 50 MB", memory <= 50)
    written, due = found["samples"], found["due"]
    disk = f"{found['disk_kb_each']:.0f} kB a task after {SETTLE + MEASURE:.0f} s"
    report.add("samples in the files", f"{written:,} of {due:,}", disk, "all", written == due)


def main() -> None:
    django.setup()
    farm = farm_of(NODES, rows(NODES, TASKS))
    sampler = subprocess.Popen([sys.executable, "manage.py", "runsampler"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(SETTLE)
        print(json.dumps({"nodes": NODES, "tasks": NODES * TASKS, **_cost(sampler.pid, farm)}))
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
        "pss_mb": told_of(pid, "Pss", "smaps_rollup") / 1024,
        "rss_mb": told_of(pid, "VmRSS") / 1024,
        "threads": told_of(pid, "Threads"),
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


if __name__ == "__main__":
    main()
