"""What the portal costs while nothing happens: CPU time and memory of all its processes."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.processes import told_of
from benchmarks.report import Report, wait_for
from benchmarks.sizes import size
from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode

SETTLE, SECONDS = size((30.0, 40.0), (0.0, 0.5))  # a new node is looked into a while after its portal is ready


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    time.sleep(SETTLE)
    # What the start left to do is done: that process ends by itself.
    wait_for(lambda: not portal.running("first start"), 60, 0.1, "the first start is over")
    pids = sorted(portal.processes())
    before = {pid: _cpu_of(pid) for pid in pids}
    time.sleep(SECONDS)
    used = {pid: 100 * (_cpu_of(pid) - before[pid]) / SECONDS for pid in pids}
    # Megabytes; a page shared by n processes counts 1/n for each.
    memory = {pid: told_of(pid, "Pss", "smaps_rollup") / 1024 for pid in pids}
    report.title(f"Idle for {SECONDS:.0f} s, all {len(pids)} processes")
    cpu, total = sum(used.values()), sum(memory.values())
    report.add("CPU", f"{cpu:.2f} % of a core", "", "<= 0.4 %", cpu <= 0.4)
    report.add("memory (PSS)", f"{total:.0f} MB", "", "<= 220 MB", total <= 220)
    lines = portal.processes()
    for pid in pids:
        what = " ".join(lines.get(pid, "").split()[-2:]).replace(str(Path.cwd()) + "/", "")
        report.add(f"  {what}", f"{used[pid]:.2f} %, {memory[pid]:.0f} MB")


def _cpu_of(pid: int) -> float:
    """Seconds of CPU of the threads that live, to the nanosecond: what is idle works for less than a tick at a time."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
