"""Runs each measurement of the scheduler in a process and a LONGSHORE_HOME of its own, and prints what it found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.report import Report
from tests.acceptance.portal import ROOT

WORLDS = {
    "alike": "all of one GPU",
    "different": "each of another shape",
    "gangs": "gangs of 4",
    "teams": "8 virtual clusters, everything on",
}


def passes(report: Report) -> None:
    for which in ("alike", "different", "gangs", "teams"):
        _tell_passes(report, which, _alone("passes", which, "1000"))


def growth(report: Report) -> None:
    """The same with a tenth and with ten times of all: ten times the nodes and jobs cost ten times the CPU at most."""
    report.title("Passes of 8 virtual clusters with everything on, as nodes and jobs grow")
    sizes = (100, 1_000, 10_000)
    found = {nodes: _alone("passes", "teams", str(nodes)) for nodes in sizes}
    for name, what in (("pass in which nothing changes", "idle_cpu_ms"), ("the same, turns anew", "anew_cpu_ms")):
        ms = [found[nodes][what] for nodes in sizes]
        steps = [after / before for before, after in pairwise(ms)]
        beside = "; ".join(f"{nodes:,} nodes {each:.0f} ms" for nodes, each in zip(sizes, ms, strict=True))
        told = ", ".join(f"{each:.1f}" for each in steps)
        report.add(name, f"x {told}", beside, "<= 10 x", max(steps) <= 10)


def questions(report: Report) -> None:
    found = _alone("questions")
    report.title("Questions about 10,000 jobs on 1,000 nodes")
    for name, what, most in (
        ("timeline", "page of a day", 1.0),
        ("timeline_api", "the same as JSON", 1.0),
        ("queue", "list of those that wait", 0.25),
        ("what_if", "what two drained nodes would change", 5.0),
    ):
        one = found[name]
        beside = f"{one['bytes'] / 1000:,.0f} kB; {one['wall']:.2f} s"
        report.add(what, f"{one['cpu']:.2f} s of CPU", beside, f"< {most:g} s", one["cpu"] < most)


def watch(report: Report) -> None:
    found = _alone("watch")
    nodes, threads = found["nodes"], found["threads"]
    report.title(f"Watching {nodes:,} engines over HTTP, {found['tasks']:,} containers run")
    asked = ", ".join(f"{number:g} {kind}" for kind, number in found["asked_per_s"].items() if number)
    cpu = found["cpu_percent"]
    report.add("scheduler with nothing to do", f"{cpu:.0f} % of a core", f"asks per s: {asked}", "<= 30 %", cpu <= 30)
    each = threads / nodes
    report.add("threads", f"{each:.2f} a node", f"{found['memory_mb']:.0f} MB", "< 2 a node", each < 2)
    p50, p95 = found["event_p50_ms"], found["event_p95_ms"]
    beside = f"{found['event_cpu_ms']:.0f} ms of CPU each; max {found['event_max_ms']:.0f} ms"
    report.add("end of a container to its row", f"p50 {p50:.0f} ms, p95 {p95:.0f} ms", beside, "<= 200 ms", p95 <= 200)


def _tell_passes(report: Report, which: str, found: dict[str, float]) -> None:
    """Bars are of CPU time: the machine may be busy."""
    waiting, idle = f"{found['waiting']:,.0f}", found["idle_cpu_ms"]
    report.title(f"Passes with {found['nodes']:,} nodes and {waiting} waiting jobs, {WORLDS[which]}")
    taken = f"{found['gpus_taken']:,} GPUs taken, {found['tasks_running']:,} run; p50 {found['idle_p50_ms']:.0f} ms"
    report.add("pass in which nothing changes", f"{idle:.0f} ms of CPU", taken, "<= 50 ms", idle <= 50)
    report.add("the same, turns worked out anew", f"{found['anew_cpu_ms']:.0f} ms of CPU", "once in 5 s at most")
    beside = f"{found['placed']:,} tasks placed; {found['placements_per_s']:.0f} tasks/s"
    gangs, tasks = found["jobs_per_cpu_s"], found["placements_per_cpu_s"]
    if which == "gangs":
        report.add("gangs placed", f"{gangs:.0f} per s of CPU", beside, ">= 300 /s", gangs >= 300)
    elif which == "alike":
        report.add("tasks placed", f"{tasks:.0f} per s of CPU", beside, ">= 2,300 /s", tasks >= 2_300)
    else:
        report.add("tasks placed", f"{tasks:.0f} per s of CPU", beside)
    p99, most = found["placing_p99_cpu_ms"], found["most_placed"]
    up_to = f"up to {most} tasks each; p50 {found['placing_p50_ms']:.0f} ms"
    report.add("pass that places", f"p99 {p99:.0f} ms of CPU", up_to, "<= 250 ms", p99 <= 250)
    shown = f"max {found['losing_max_ms']:.0f} ms, {found['losing_cpu_ms']:.0f} ms of CPU"
    beside = f"{found['lost']:,} told in the first three, the rest follows"
    report.add("pass after every container has vanished", shown, beside)
    report.add("first pass of a new process", f"{found['first_ms']:.0f} ms", "reads every job once")


def _alone(module: str, *arguments: str) -> Any:
    """What a module of this folder prints as a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.scheduler.{module}", *arguments],
            env={**os.environ, "LONGSHORE_HOME": str(folder), "LONGSHORE_LOG_LEVEL": "WARNING"},
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            timeout=1800,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return json.loads(done.stdout)
