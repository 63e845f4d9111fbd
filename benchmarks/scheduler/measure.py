"""Runs each measurement of the scheduler in a process and a LONGSHORE_HOME of its own, and prints what it found."""

from __future__ import annotations

from benchmarks.processes import alone
from benchmarks.report import Report
from benchmarks.sizes import size

NODES = size(1_000, 4)
MANY = size(4, 2)  # worlds

WORLDS = {
    "different": "each of another shape",
    "gangs": "gangs of 4",
    "alike": "all of one GPU",
    "teams": "8 virtual clusters, everything on",
}


def passes(report: Report) -> None:
    for which in [*WORLDS][:MANY]:
        _tell_passes(report, which, alone("benchmarks.scheduler.passes", which, str(NODES)))


def questions(report: Report) -> None:
    found = alone("benchmarks.scheduler.questions")
    report.title(f"Questions about {found['jobs']:,} jobs on {found['nodes']:,} nodes")
    for name, what, most in (
        ("metrics", "/metrics, all GPUs and tasks measured", 0.5),
        ("nodes_page", "page of nodes", 0.15),
        ("home", "home page of an admin", 0.15),
        ("policy", "page of the policy", 0.25),
        ("timeline", "page of a day", 1.0),
        ("timeline_api", "the same as JSON", 1.0),
        ("queue", "list of those that wait", 0.25),
        ("what_if", "what two drained nodes would change", 5.0),
    ):
        one = found[name]
        beside = f"{one['bytes'] / 1000:,.0f} kB; {one['wall']:.2f} s"
        report.add(what, f"{one['cpu']:.2f} s of CPU", beside, f"< {most:g} s", one["cpu"] < most)


def watch(report: Report) -> None:
    found = alone("benchmarks.scheduler.watch")
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
    report.add("pass in which nothing changes", f"{idle:.1f} ms of CPU", taken, "<= 5 ms", idle <= 5)
    anew, seldom = found["anew_cpu_ms"], "once in 5 s at most"
    report.add("the same, turns worked out anew", f"{anew:.0f} ms of CPU", seldom, "<= 50 ms", anew <= 50)
    beside = f"{found['placed']:,} tasks placed; {found['placements_per_s']:.0f} tasks/s"
    gangs, tasks = found["jobs_per_cpu_s"], found["placements_per_cpu_s"]
    if which == "gangs":
        report.add("gangs placed", f"{gangs:.0f} per s of CPU", beside, ">= 300 /s", gangs >= 300)
    else:
        report.add("tasks placed", f"{tasks:.0f} per s of CPU", beside, ">= 4,000 /s", tasks >= 4_000)
    p99, most = found["placing_p99_cpu_ms"], found["most_placed"]
    up_to = f"up to {most} tasks each; p50 {found['placing_p50_ms']:.0f} ms"
    report.add("pass that places", f"p99 {p99:.0f} ms of CPU", up_to, "<= 150 ms", p99 <= 150)
    shown = f"max {found['losing_max_ms']:.0f} ms, {found['losing_cpu_ms']:.0f} ms of CPU"
    beside = f"{found['lost']:,} told in the first three, the rest follows"
    report.add("pass after every container has vanished", shown, beside)
    report.add("first pass of a new process", f"{found['first_ms']:.0f} ms", "reads every job once")
