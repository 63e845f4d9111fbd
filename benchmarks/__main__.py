"""``make bench``: see the package."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import bucket, cluster, code, files, idle, pages, rates, serving, slow, starts, trace, webs
from benchmarks.faults import measure as faults
from benchmarks.inside import measure as inside
from benchmarks.policy import measure as policy
from benchmarks.report import Report
from tests.acceptance.portal import ROOT, portal_on
from tests.bed.docker_bed import Bed, missing

NAMES = ("starts", "rates", "idle", "pages", "serving", "passes", "watch", "files", "code", "slow")
ASKED_FOR = (
    "growth",
    "policy",
    "questions",
    "trace",
    "faults",
    "kubernetes",
    "s3",
    "webs",
    *inside.NAMES,
)  # by name alone


def main() -> int:
    wanted = sys.argv[1:] or list(NAMES)
    if unknown := set(wanted) - {*NAMES, *ASKED_FOR}:
        print(f"No such benchmark: {', '.join(sorted(unknown))}. There are {', '.join([*NAMES, *ASKED_FOR])}.")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    report, began = Report(), time.monotonic()
    load = f"load {os.getloadavg()[0]:.1f} before the start"
    print(f"{os.cpu_count()} cores, {load}. On a busy machine ratios and CPU times hold, other times do not.")
    if "passes" in wanted:
        _passes(report)
    if "growth" in wanted:
        _growth(report)
    if "questions" in wanted:
        _questions(report)
    if "watch" in wanted:
        _watch(report)
    if "files" in wanted:
        files.measure(report)
    if "s3" in wanted:
        bucket.measure(report)
    if "slow" in wanted:
        slow.measure(report)
    if "policy" in wanted:
        policy.measure(report)
    if "kubernetes" in wanted:
        cluster.measure(report)
    if "webs" in wanted:
        webs.measure(report)
    if "trace" in wanted:
        _trace()
    if "faults" in wanted:
        _faults(report)
    if set(wanted) - {"passes", "watch", "files", "slow", *ASKED_FOR} | {*wanted} & {*inside.NAMES}:
        _on_an_engine(report, wanted)
    print(f"\n{report.summary()}. {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f} at the end.")
    return 0


def _on_an_engine(report: Report, wanted: list[str]) -> None:
    if reason := missing():
        print(f"\nNo engine of our own ({reason}): only passes, files and slow are measured.")
        return
    folder, bed = Path(tempfile.mkdtemp(prefix="ls-bench-")), Bed()
    try:
        node = bed.up(1)[0]
        with portal_on(folder, node, LONGSHORE_TERMINALS="60", LONGSHORE_APPS_BIND="any") as portal:
            if "idle" in wanted:
                idle.measure(report, portal)
            if "starts" in wanted:
                starts.measure(report, portal, node.unix)
            if "rates" in wanted:
                rates.measure(report, portal, node.unix)
            if "code" in wanted:
                code.measure(report, portal, node)
            if "pages" in wanted:
                pages.measure(report, portal)
            if "serving" in wanted:
                serving.measure(report, portal)
            inside.measure(report, portal, node, wanted)
    finally:
        bed.down()
        shutil.rmtree(folder, ignore_errors=True)


def _faults(report: Report) -> None:
    if reason := missing():
        print(f"\nNo nodes of our own ({reason}): nothing is broken.")
        return
    faults.measure(report)


def _trace() -> None:
    folder, bed = Path(tempfile.mkdtemp(prefix="ls-bench-")), Bed()
    try:
        node = bed.up(1)[0]
        with portal_on(folder, node, **trace.settings(folder)) as portal:
            trace.measure(portal, node)
    finally:
        bed.down()
        shutil.rmtree(folder, ignore_errors=True)


def _passes(report: Report) -> None:
    for which in ("alike", "different", "gangs", "teams"):
        _tell_passes(report, which, _alone("benchmarks.passes", which, "1000"))


def _growth(report: Report) -> None:
    """The same with a tenth and with ten times of all: ten times the nodes and jobs cost ten times the CPU at most."""
    report.title("Passes of 8 virtual clusters with everything on, as nodes and jobs grow")
    sizes = (100, 1_000, 10_000)
    found = {nodes: _alone("benchmarks.passes", "teams", str(nodes)) for nodes in sizes}
    for name, what in (("pass in which nothing changes", "idle_cpu_ms"), ("the same, turns anew", "anew_cpu_ms")):
        ms = [found[nodes][what] for nodes in sizes]
        steps = [after / before for before, after in pairwise(ms)]
        beside = "; ".join(f"{nodes:,} nodes {each:.0f} ms" for nodes, each in zip(sizes, ms, strict=True))
        told = ", ".join(f"{each:.1f}" for each in steps)
        report.add(name, f"x {told}", beside, "<= 10 x", max(steps) <= 10)


def _questions(report: Report) -> None:
    found = _alone("benchmarks.questions")
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


def _watch(report: Report) -> None:
    found = _alone("benchmarks.watch")
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


def _alone(module: str, *arguments: str) -> Any:
    """What a measurement in a process and a LONGSHORE_HOME of its own prints."""
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, "LONGSHORE_HOME": str(folder), "LONGSHORE_LOG_LEVEL": "WARNING"},
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            timeout=1800,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return json.loads(done.stdout)


WORLDS = {
    "alike": "all of one GPU",
    "different": "each of another shape",
    "gangs": "gangs of 4",
    "teams": "8 virtual clusters, everything on",
}


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


if __name__ == "__main__":
    sys.exit(main())
