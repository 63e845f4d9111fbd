"""How long from submitting a job until its container runs, beside `docker run` of the same container."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.jobs import bare_engine
from benchmarks.report import Report, ms, spread, wait_for
from benchmarks.sizes import size
from tests.acceptance.portal import Portal, config
from tests.bed.docker_bed import BedNode

NUMBER = size(20, 1)
COMMAND = "exec sleep 300"
MOST = 1.4  # times `docker run`
EVERY = 0.02  # seconds between two questions of the client that waits


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    """The two take turns, so that whatever else the machine does meets both."""
    seen, ledger, beside = [], [], []
    steps: list[dict[str, float]] = []
    for at in range(NUMBER + 1):
        bare = bare_engine.docker_run(node.unix, f"bench-run-{at}", COMMAND)
        bare_engine.docker_remove(node.unix, f"bench-run-{at}")
        name = f"start-{at}"
        began = time.perf_counter()
        portal.submit(config(name, COMMAND))
        wait_for(_is_running(portal, name), 60, EVERY, f"{name} runs")
        took = time.perf_counter() - began
        times = _steps(portal, name)
        _end(portal, name)
        if at:  # the first of each fills caches
            seen.append(took)
            beside.append(bare)
            ledger.append(times["running"])
            steps.append(times)
    _tell(report, seen, ledger, beside, steps)


def _tell(
    report: Report, seen: list[float], ledger: list[float], beside: list[float], steps: list[dict[str, float]]
) -> None:
    report.title(f"Start of one container ({NUMBER} in turns)")
    report.add("docker run -d", spread(beside))
    ratio = median(seen) / median(beside)
    report.add(
        "submit -> RUNNING, seen by the client",
        spread(seen),
        f"{ratio:.2f} x docker run",
        f"<= {MOST} x",
        ratio <= MOST,
    )
    report.add("  in seconds", ms(median(seen)), "", "<= 1 s", median(seen) <= 1)
    report.add("  by the job's events", spread(ledger), f"{median(ledger) / median(beside):.2f} x docker run")
    report.add("  of it, submit -> placed", spread([one["placed"] for one in steps]))


def _is_running(portal: Portal, name: str) -> Callable[[], bool]:
    return lambda: any(
        task["taskState"] == "RUNNING"
        for role in portal.job(name)["taskRoles"].values()
        for task in role["taskStatuses"]
    )


def _steps(portal: Portal, name: str) -> dict[str, float]:
    """Seconds since the submission, from the job's events."""
    times: dict[str, float] = {}
    for event in portal.events(name):
        kind = event["kind"]
        if kind == "job.submitted":
            times["submitted"] = event["time"]
        elif kind == "job.placed":
            times["placed"] = event["time"]
        elif kind == "task.state" and event["to"] == "RUNNING":
            times["running"] = event["time"]
    return {step: (at - times["submitted"]) / 1000 for step, at in times.items()}


def _end(portal: Portal, name: str) -> None:
    portal.stop(name)
    portal.wait_state(name)
    portal.wait_clean()
