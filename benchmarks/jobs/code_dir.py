"""A codeDir of the largest size on its way to the tasks of a job, beside the bare SDK putting the same tar into as many
containers. Both end when all containers run."""

from __future__ import annotations

import os
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.jobs import bare_engine
from benchmarks.processes import told_of
from benchmarks.report import Report, wait_for
from benchmarks.sizes import size
from tests.acceptance.portal import Portal, config
from tests.bed.docker_bed import BedNode

TASKS = size(4, 1)
SIZE = size(200_000_000, 10_000)
SHAPES = {1: "1 file", size(20_000, 10): "20,000 files"}
FOLDERS = 100
EVERY = 0.1  # seconds between two looks at the workers' memory
MOST = 1.3  # times the bare SDK, for many files
CACHES = 0.5  # of the tar's size: a worker that takes more holds the tar in memory


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    portal.change_node("local", cpuNumber=2 * TASKS)
    report.title(f"Code of {SIZE / 1e6:.0f} MB to {TASKS} tasks, until all run")
    for count, said in SHAPES.items():
        folder = portal.home / "store" / "shared" / f"bench-{count}"
        _write(folder, count)
        bare = _bare(folder, portal.home / "bare.tar", node.unix)
        took, grown = _through_the_portal(portal, folder.name, node)
        beside, ratio = f"bare put_archive {bare:.1f} s: {took / bare:.2f} x", took / bare
        target = (f"<= {MOST} x", ratio <= MOST) if count > 1 else ("", None)
        report.add(f"{said}: submit -> RUNNING", f"{took:.1f} s", beside, *target)
        most = CACHES * SIZE / 1e6
        report.add("  workers' memory meanwhile", f"+ {grown:.0f} MB", "", f"<= {most:.0f} MB", grown <= most)


def _write(folder: Path, count: int) -> None:
    content = os.urandom(SIZE // count)
    for at in range(count):
        file = folder / f"part{at % FOLDERS}" / f"{at}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _bare(folder: Path, path: Path, endpoint: str) -> float:
    with tarfile.open(path, "w") as tar:
        tar.add(folder, f"pai/code/{folder.name}")
    names = [f"bare-code-{folder.name}-{at}" for at in range(TASKS)]
    began = time.perf_counter()
    with ThreadPoolExecutor(TASKS) as crew:
        list(crew.map(lambda name: bare_engine.with_archive(endpoint, name, path), names))
    took = time.perf_counter() - began
    for name in names:
        bare_engine.docker_remove(endpoint, name)
    path.unlink()
    return took


def _through_the_portal(portal: Portal, folder: str, node: BedNode) -> tuple[float, float]:
    """Seconds, and by how many megabytes the workers grew at most."""
    job = config(folder, "exec sleep 600", taskNumber=TASKS, memoryMB=1000, codeDir=f"/shared/{folder}")
    pids = portal.running("workers")
    with _peak(pids) as most:
        began = time.perf_counter()
        portal.submit(job)
        wait_for(lambda: _all_run(portal, folder), 300, EVERY, f"all of {folder} run")
        took = time.perf_counter() - began
    portal.stop(folder)
    portal.wait_state(folder)
    portal.wait_clean(node, timeout=120)
    return took, most()


def _all_run(portal: Portal, name: str) -> bool:
    roles = portal.job(name)["taskRoles"]  # none before the job is seen by the scheduler
    return bool(roles) and all(task["taskState"] == "RUNNING" for task in roles["main"]["taskStatuses"])


@contextmanager
def _peak(pids: list[int]) -> Iterator[Callable[[], float]]:
    """By how much the processes' resident memory grew, in MB; looked at all the time."""
    before, ended = _resident(pids), threading.Event()
    seen = [before]

    def look() -> None:
        while not ended.wait(EVERY):
            seen.append(_resident(pids))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield lambda: max(seen) - before
    finally:
        ended.set()
        watcher.join()


def _resident(pids: list[int]) -> float:
    return sum(told_of(pid, "VmRSS") for pid in pids) / 1024
