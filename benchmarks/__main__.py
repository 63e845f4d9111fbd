"""``make bench``: see the package."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.faults import measure as faults
from benchmarks.files import hdfs, s3
from benchmarks.growth import measure as growth
from benchmarks.jobs import code_dir, kubernetes, rates, starts
from benchmarks.limits import measure as limits
from benchmarks.packing import measure as packing
from benchmarks.policy import measure as policy
from benchmarks.portal import api_requests, command, idle, pages, slow_clients, waiting, web_processes
from benchmarks.report import Report
from benchmarks.running_jobs import logs, sampling, terminal, web_pages
from benchmarks.scheduler import measure as scheduler
from benchmarks.trace import follow
from tests.acceptance.portal import Portal, portal_on
from tests.bed import docker_bed, kubernetes_bed, postgres_bed
from tests.bed.docker_bed import Bed, BedNode

# Both in the order in which they run. Those of the first table make what they need themselves; those of the second
# share one portal and one node, and leave no job behind that runs.
ALONE: dict[str, Callable[[Report], None]] = {
    "machine": api_requests.machine,
    "passes": scheduler.passes,
    "growth": growth.measure,
    "questions": scheduler.questions,
    "watch": scheduler.watch,
    "inside.sampling": sampling.measure,
    "limits": limits.measure,
    "limits.postgres": limits.on_postgres,
    "s3": s3.measure,
    "policy": policy.measure,
    "packing": packing.measure,
    "kubernetes": kubernetes.measure,
    "webs": web_processes.measure,
    "faults": faults.measure,
}
ON_ONE_NODE: dict[str, Callable[[Report, Portal, BedNode], None]] = {
    "idle": idle.measure,
    "starts": starts.measure,
    "rates": rates.measure,
    "queue": waiting.measure,
    "files": hdfs.measure,
    "code": code_dir.measure,
    "inside.terminal": terminal.measure,
    "inside.logs": logs.measure,
    "inside.web_pages": web_pages.measure,
    "trace": follow.measure,
    "slow": slow_clients.measure,
    "command": command.measure,
    "pages": pages.measure,
    "serving": api_requests.measure,
}
PARTS = (*ALONE, *ON_ONE_NODE)
USUAL = (
    "machine",
    "starts",
    "rates",
    "idle",
    "queue",
    "command",
    "pages",
    "serving",
    "passes",
    "watch",
    "files",
    "code",
    "slow",
)
GROUPS = {"inside": tuple(name for name in PARTS if name.startswith("inside."))}  # a name for several
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*ON_ONE_NODE, "faults"), ("docker",)),
    "s3": ("docker", "postgres"),
    "webs": ("postgres",),
    "limits.postgres": ("postgres",),
    "kubernetes": ("kubernetes",),
}
_MISSING = {"docker": docker_bed.missing, "postgres": postgres_bed.missing, "kubernetes": kubernetes_bed.missing}


def main() -> int:
    """0 when all parts came to their end, whatever targets they missed."""
    asked = sys.argv[1:] or list(USUAL)
    wanted = {part for name in asked for part in GROUPS.get(name, (name,))}
    if unknown := wanted.difference(PARTS):
        print(f"No such benchmark: {', '.join(sorted(unknown))}. There are {', '.join((*PARTS, *GROUPS))}.")
        return 2
    report = Report()
    load = f"load {os.getloadavg()[0]:.1f} before the start"
    print(f"{os.cpu_count()} cores, {load}. On a busy machine ratios and CPU times hold, other times do not.")
    for need in _MISSING:
        without = {part for part in wanted if need in NEEDS.get(part, ())}
        if without and (reason := _MISSING[need]()):
            print(f"Without {need} ({reason}) these are left out: {', '.join(sorted(without))}.")
            wanted -= without
    for name, measure in ALONE.items():
        if name in wanted:
            with report.part(name):
                measure(report)
    _on_one_node(report, wanted & {*ON_ONE_NODE})
    report.close()
    return int(bool(report.broken))


def _on_one_node(report: Report, wanted: set[str]) -> None:
    with ExitStack() as stack:
        if wanted:
            with report.part("one node"):
                portal, node = stack.enter_context(_one_node(follow.PROBED if "trace" in wanted else {}))
        for name in ON_ONE_NODE if "one node" not in report.broken else ():
            if name in wanted:
                with report.part(name):
                    ON_ONE_NODE[name](report, portal, node)


@contextmanager
def _one_node(settings: dict[str, str]) -> Iterator[tuple[Portal, BedNode]]:
    """With probes, where they are asked for, other figures are a little worse."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ls-bench-", ignore_cleanup_errors=True)))
        bed = Bed()
        stack.callback(bed.down)
        node = bed.up(1)[0]
        settings = {"LONGSHORE_TERMINALS": "60", "LONGSHORE_APPS_BIND": "any", **settings}
        yield stack.enter_context(portal_on(folder, node, **settings)), node


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    sys.exit(main())
