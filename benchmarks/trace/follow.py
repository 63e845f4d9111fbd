"""Follows jobs through all processes of a portal and prints where their time goes.

A single task, a gang, and many gangs at once, each from the submission until the last container is removed. The
portal runs with probes (benchmarks/trace/probes.py), so its figures are a little worse than those of ``rates``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

from docker import APIClient

from benchmarks.jobs.rates import AT_ONCE, CLIENTS, GANG, unfinished
from benchmarks.processes import cpu_of
from benchmarks.report import Report, wait_for
from benchmarks.sizes import size
from benchmarks.trace import probes
from tests.acceptance.portal import Portal, config
from tests.bed.docker_bed import BedNode

GANGS = size(10, 1)
PROBED = {"DJANGO_SETTINGS_MODULE": "benchmarks.trace.settings"}  # what a portal needs to be traced
ENGINE = ("create", "start", "die", "destroy")  # events of the engine that end up in the table


@dataclass(frozen=True, slots=True)
class Step:
    """One call of one probed function. ``began``, ``took`` and ``used``, the CPU of its thread, are nanoseconds."""

    began: int
    took: int
    name: str
    used: int = 0


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    portal.change_node("local", cpuNumber=AT_ONCE)
    _follow(portal, node, "traced", jobs=1, tasks=1)  # fills caches
    _tell(report, "One task", *_follow(portal, node, "traced-one", jobs=1, tasks=1))
    _tell(report, f"One gang of {GANG}", *_follow(portal, node, "traced-gang", jobs=1, tasks=GANG))
    _tell(report, f"{GANGS * GANG} single tasks", *_follow(portal, node, "traced-ones", jobs=GANGS * GANG, tasks=1))
    _tell(report, f"{GANGS} gangs of {GANG}", *_follow(portal, node, "traced-gangs", jobs=GANGS, tasks=GANG))


def _follow(portal: Portal, node: BedNode, prefix: str, jobs: int, tasks: int) -> tuple[int, list[Step], str, str]:
    """When it began, the steps, how long it took, and the CPU time of the portal's processes."""
    configs = [config(f"{prefix}-{at}", "true", taskNumber=tasks, minSucceededTaskCount=tasks) for at in range(jobs)]
    file = portal.home / probes.FILE
    skipped, before, began = file.stat().st_size, _cpu(portal), time.time_ns()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(portal.submit, configs))
    wait_for(lambda: portal.rows(unfinished(prefix)) == [(0,)], 240, 0.02, f"all {prefix} jobs are collected")
    ended = time.time_ns()
    used = {who: seconds - before[who] for who, seconds in _cpu(portal).items()}
    told = ", ".join(f"{who} {1000 * seconds / jobs / tasks:.0f}" for who, seconds in used.items())
    with file.open() as lines:
        lines.seek(skipped)
        steps = [Step(int(line[0]), int(line[1]), line[4], int(line[5])) for line in map(_fields, lines)]
    steps += _of_engine(node, began, ended)
    return began, steps, f"{(ended - began) / 1e9:.2f} s", f"ms of CPU a task: {told}"


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


def _tell(report: Report, title: str, began: int, steps: Sequence[Step], took: str, cpu: str) -> None:
    report.add(f"{title}, until collected", took, cpu)
    heads = f"{'times':>5} {'first':>8} {'last end':>9} {'median':>8} {'longest':>8} {'sum, ms':>9} {'CPU, ms':>8}"
    print(f"  {'step':<36} {heads}")
    by_name: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_name[step.name].append(step)
    for name, some in sorted(by_name.items(), key=lambda item: min(step.began for step in item[1])):
        each = [step.took / 1e6 for step in some]
        first = (min(step.began for step in some) - began) / 1e6
        last = (max(step.began + step.took for step in some) - began) / 1e6
        figures = f"{len(some):>5} {first:>8.0f} {last:>9.0f} {median(each):>8.1f} {max(each):>8.1f} {sum(each):>9.0f}"
        used = sum(step.used for step in some) / 1e6
        print(f"  {name:<36} {figures} {used:>8.1f}", flush=True)


def _cpu(portal: Portal) -> dict[str, float]:
    """Seconds of CPU that its processes have used, by kind."""
    return {who: sum(map(cpu_of, portal.running(who))) for who in ("web", "scheduler", "workers")}
