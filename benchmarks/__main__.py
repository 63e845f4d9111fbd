"""``make bench``: see the package."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults import measure as faults
from benchmarks.files import hdfs, s3
from benchmarks.jobs import code_dir, kubernetes, rates, starts
from benchmarks.policy import measure as policy
from benchmarks.portal import api_requests, idle, pages, slow_clients, web_processes
from benchmarks.report import Report
from benchmarks.running_jobs import measure as running_jobs
from benchmarks.scheduler import measure as scheduler
from benchmarks.trace import follow
from tests.acceptance.portal import Portal, portal_on
from tests.bed.docker_bed import Bed, BedNode, missing


def _trace(report: Report) -> None:
    with _one_node() as (folder, node), portal_on(folder, node, **follow.settings(folder)) as portal:
        follow.measure(portal, node)


# Both in the order in which they run. Those of the first table make what they need themselves; those of the second
# share one portal and one node.
ALONE: dict[str, Callable[[Report], None]] = {
    "passes": scheduler.passes,
    "growth": scheduler.growth,
    "questions": scheduler.questions,
    "watch": scheduler.watch,
    "files": hdfs.measure,
    "s3": s3.measure,
    "slow": slow_clients.measure,
    "policy": policy.measure,
    "kubernetes": kubernetes.measure,
    "webs": web_processes.measure,
    "trace": _trace,
    "faults": faults.measure,
}
ON_ONE_NODE: dict[str, Callable[[Report, Portal, BedNode], None]] = {
    "idle": idle.measure,
    "starts": starts.measure,
    "rates": rates.measure,
    "code": code_dir.measure,
    "pages": pages.measure,
    "serving": api_requests.measure,
    **running_jobs.PARTS,
}
USUAL = ("starts", "rates", "idle", "pages", "serving", "passes", "watch", "files", "code", "slow")
GROUPS = {"inside": tuple(running_jobs.PARTS)}  # a name for several
NEEDS_NODES = {"trace", "faults", *ON_ONE_NODE}


def main() -> int:
    asked = sys.argv[1:] or list(USUAL)
    wanted = {part for name in asked for part in GROUPS.get(name, (name,))}
    if unknown := wanted - {*ALONE, *ON_ONE_NODE}:
        names = ", ".join([*ALONE, *ON_ONE_NODE, *GROUPS])
        print(f"No such benchmark: {', '.join(sorted(unknown))}. There are {names}.")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    report, began = Report(), time.monotonic()
    load = f"load {os.getloadavg()[0]:.1f} before the start"
    print(f"{os.cpu_count()} cores, {load}. On a busy machine ratios and CPU times hold, other times do not.")
    if (without := wanted & NEEDS_NODES) and (reason := missing()):
        print(f"\nNo nodes of our own ({reason}), so these are left out: {', '.join(sorted(without))}.")
        wanted -= NEEDS_NODES
    for name, measure in ALONE.items():
        if name in wanted:
            measure(report)
    if wanted & {*ON_ONE_NODE}:
        _on_one_node(report, wanted)
    print(f"\n{report.summary()}. {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f} at the end.")
    return 0


def _on_one_node(report: Report, wanted: set[str]) -> None:
    with (
        _one_node() as (folder, node),
        portal_on(folder, node, LONGSHORE_TERMINALS="60", LONGSHORE_APPS_BIND="any") as portal,
    ):
        for name, measure in ON_ONE_NODE.items():
            if name in wanted:
                measure(report, portal, node)


@contextmanager
def _one_node() -> Iterator[tuple[Path, BedNode]]:
    folder, bed = Path(tempfile.mkdtemp(prefix="ls-bench-")), Bed()
    try:
        yield folder, bed.up(1)[0]
    finally:
        bed.down()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
