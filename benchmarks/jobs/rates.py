"""Jobs and gangs per second, from the first submission until the last is SUCCEEDED and collected, beside the bare SDK
doing create, start, wait and remove with as many at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.jobs import bare_engine
from benchmarks.report import Report, wait_for
from benchmarks.sizes import size
from tests.acceptance.portal import Portal, config
from tests.bed.docker_bed import BedNode

CONTAINERS = size(80, 4)
GANG = 4
AT_ONCE = size(16, 4)  # cores the node is said to have; each task takes one
LEAST = 0.75  # of the bare SDK's rate
CLIENTS = 4  # who submit at the same time


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    portal.change_node("local", cpuNumber=AT_ONCE)
    bare_engine.containers_per_second(node.unix, AT_ONCE, AT_ONCE)
    before = bare_engine.containers_per_second(node.unix, CONTAINERS // 2, AT_ONCE)
    jobs = _per_second(portal, "one", CONTAINERS, 1)
    gangs = _per_second(portal, "gang", CONTAINERS // GANG, GANG)
    after = bare_engine.containers_per_second(node.unix, CONTAINERS // 2, AT_ONCE)
    bare = (before + after) / 2
    report.title(f"Short jobs, {AT_ONCE} containers at once, until collected")
    report.add(
        "bare SDK: create, start, wait, remove", f"{bare:.1f} containers/s", f"{before:.1f} before, {after:.1f} after"
    )
    ratio = jobs / bare
    report.add("one-task jobs", f"{jobs:.1f} jobs/s", f"{ratio:.2f} x the bare SDK", f">= {LEAST} x", ratio >= LEAST)
    ratio = gangs / bare
    report.add(
        f"gangs of {GANG}", f"{gangs:.1f} tasks/s", f"{ratio:.2f} x the bare SDK", f">= {LEAST} x", ratio >= LEAST
    )


def _per_second(portal: Portal, prefix: str, jobs: int, tasks: int) -> float:
    """Tasks per second."""
    configs = [config(f"{prefix}-{at}", "true", taskNumber=tasks, minSucceededTaskCount=tasks) for at in range(jobs)]
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(portal.submit, configs))
    wait_for(lambda: portal.rows(unfinished(prefix)) == [(0,)], 240, 0.05, f"all {prefix} jobs are collected")
    return jobs * tasks / (time.perf_counter() - began)


def unfinished(prefix: str) -> str:
    """A query that counts the jobs of these names which have not succeeded or are not collected."""
    return (
        f"SELECT count(*) FROM jobs_job j WHERE name LIKE '{prefix}-%' AND (state <> 'SUCCEEDED' OR EXISTS "
        "(SELECT 1 FROM jobs_task t WHERE t.job_id = j.id AND NOT collected))"
    )
