"""Follows jobs through all processes of a portal and prints where their time goes.

A single task, a gang, and many gangs at once, each from the submission until the last container is removed. The
portal runs with probes (benchmarks/trace/probes.py), so its figures are a little worse than those of ``rates``.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from docker import APIClient

from benchmarks.jobs.rates import AT_ONCE, CLIENTS, GANG, unfinished
from benchmarks.report import wait_for
from benchmarks.trace import probes
from tests.acceptance.portal import Portal, config
from tests.bed.docker_bed import BedNode

GANGS = 10
TICKS = os.sysconf("SC_CLK_TCK")
ENGINE = ("create", "start", "die", "destroy")  # events of the engine that end up in the table


@dataclass(frozen=True, slots=True)
class Step:
    """One call of one probed function. ``began`` and ``took`` are nanoseconds."""

    began: int
    took: int
    name: str


def settings(folder: Path) -> dict[str, str]:
    """What a portal needs in its environment to be traced."""
    return {"DJANGO_SETTINGS_MODULE": "benchmarks.trace.settings", probes.FILE: str(folder / "trace.tsv")}


def measure(portal: Portal, node: BedNode) -> None:
    portal.change_node("local", cpuNumber=AT_ONCE)
    _follow(portal, node, "warm", jobs=1, tasks=1)  # fills caches
    _tell("One task", *_follow(portal, node, "one", jobs=1, tasks=1))
    _tell(f"One gang of {GANG}", *_follow(portal, node, "gang", jobs=1, tasks=GANG))
    _tell(f"{GANGS * GANG} single tasks", *_follow(portal, node, "ones", jobs=GANGS * GANG, tasks=1))
    _tell(f"{GANGS} gangs of {GANG}", *_follow(portal, node, "gangs", jobs=GANGS, tasks=GANG))


def _follow(portal: Portal, node: BedNode, prefix: str, jobs: int, tasks: int) -> tuple[int, list[Step], str]:
    """When it began, the steps, and a sentence on the CPU time of the portal's processes."""
    configs = [config(f"{prefix}-{at}", "true", taskNumber=tasks, minSucceededTaskCount=tasks) for at in range(jobs)]
    file = Path(portal.settings[probes.FILE])
    skipped, before, began = file.stat().st_size, _cpu(portal), time.time_ns()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(portal.submit, configs))
    wait_for(lambda: portal.rows(unfinished(prefix)) == [(0,)], 240, 0.02, f"all {prefix} jobs are collected")
    ended = time.time_ns()
    used = {who: seconds - before[who] for who, seconds in _cpu(portal).items()}
    told = ", ".join(f"{who} {1000 * seconds / jobs / tasks:.0f}" for who, seconds in used.items())
    with file.open() as lines:
        lines.seek(skipped)
        steps = [Step(int(line[0]), int(line[1]), line[4].strip()) for line in map(_fields, lines)]
    steps += _of_engine(node, began, ended)
    return began, steps, f"{(ended - began) / 1e9:.2f} s; ms of CPU a task: {told}"


def _of_engine(node: BedNode, began: int, ended: int) -> list[Step]:
    client = APIClient(node.unix)
    try:
        found = client.events(since=began / 1e9, until=ended / 1e9, filters={"type": "container"}, decode=True)
        return [
            Step(event["timeNano"], 0, f"engine: says {event['Action']}")
            for event in found
            if event["Action"] in ENGINE
        ]
    finally:
        client.close()


def _fields(line: str) -> Sequence[str]:
    return line.split("\t")


def _tell(title: str, began: int, steps: Sequence[Step], summary: str) -> None:
    print(f"\n{title}: {summary}")
    print(f"  {'step':<36} {'times':>5} {'first':>8} {'last end':>9} {'median':>8} {'longest':>8} {'sum, ms':>9}")
    by_name: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_name[step.name].append(step)
    for name, some in sorted(by_name.items(), key=lambda item: min(step.began for step in item[1])):
        took = [step.took / 1e6 for step in some]
        first = (min(step.began for step in some) - began) / 1e6
        last = (max(step.began + step.took for step in some) - began) / 1e6
        figures = f"{len(some):>5} {first:>8.0f} {last:>9.0f} {median(took):>8.1f} {max(took):>8.1f} {sum(took):>9.0f}"
        print(f"  {name:<36} {figures}", flush=True)


def _cpu(portal: Portal) -> dict[str, float]:
    """Seconds of CPU that its processes have used, by kind."""
    return {who: sum(_seconds(pid) for pid in portal.running(who)) for who in ("web", "scheduler", "workers")}


def _seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS
