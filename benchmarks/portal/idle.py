"""What the portal costs while nothing happens: CPU time and memory of all its processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.report import Report
from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode

SECONDS = 20.0
_TICK = os.sysconf("SC_CLK_TCK")


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    time.sleep(5)  # what the start left to do is done
    pids = sorted(portal.processes())
    before = {pid: cpu_of(pid) for pid in pids}
    time.sleep(SECONDS)
    used = {pid: 100 * (cpu_of(pid) - before[pid]) / SECONDS for pid in pids}
    memory = {pid: _memory(pid) for pid in pids}
    report.title(f"Idle for {SECONDS:.0f} s, all {len(pids)} processes")
    cpu, total = sum(used.values()), sum(memory.values())
    report.add("CPU", f"{cpu:.1f} % of a core", "", "<= 3 %", cpu <= 3)
    report.add("memory (PSS)", f"{total:.0f} MB", "", "<= 400 MB", total <= 400)
    lines = portal.processes()
    for pid in pids:
        what = " ".join(lines.get(pid, "").split()[1:4]).replace(str(Path.cwd()) + "/", "")
        report.add(f"  {what}", f"{used[pid]:.2f} %, {memory[pid]:.0f} MB")


def cpu_of(pid: int) -> float:
    """Seconds of CPU so far, the kernel's part too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _memory(pid: int) -> float:
    """Megabytes; a page shared by n processes counts 1/n for each."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
