"""What it costs to sample a thousand running tasks: the real sampler, and twenty small engines behind real HTTP.

What is measured runs in a process and a LONGSHORE_HOME of its own, which prints one JSON object:
``python -m benchmarks.running_jobs.sampling``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import django

from benchmarks.report import Report
from benchmarks.scheduler.watch import cpu_of, farm_of, rows, told
from tests.acceptance.portal import ROOT, Portal
from tests.bed.docker_bed import BedNode

NODES, TASKS = 20, 50  # tasks of each node
SETTLE, MEASURE = 25.0, 60.0  # seconds


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    """Neither the portal nor the node takes part: nodes of this size are not at hand."""
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    own = {"LONGSHORE_HOME": str(folder), "LONGSHORE_LOG_LEVEL": "WARNING", "DJANGO_SETTINGS_MODULE": "portal.settings"}
    try:
        command = [sys.executable, "-m", "benchmarks.running_jobs.sampling"]
        done = subprocess.run(
            command, env={**os.environ, **own}, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=600
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = json.loads(done.stdout)
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
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)
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
