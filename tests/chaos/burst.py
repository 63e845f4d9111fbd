"""Many jobs at once on few nodes of a machine that is busy with something else, and what became of them.

    .venv/bin/python -m tests.chaos.burst --jobs 300 --nodes 1 --load 20

It prints how many jobs ended right, how many attempts more than one they took, and the seconds. Ends with 0 when all
are right and none was tried twice.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.sample_image import ensure_sample_image
from tests.acceptance.portal import ENDS, Portal, config, remove_containers
from tests.bed import docker_bed
from tests.helpers import LIMIT

SUBMITTERS = 8
EVERY = 2.0  # seconds between two looks at the jobs
BUSY = [sys.executable, "-c", "while True: pass"]


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.chaos.burst")
    asked.add_argument("--jobs", type=int, default=300)
    asked.add_argument("--nodes", type=int, default=1)
    asked.add_argument("--load", type=int, default=20, help="programs that do nothing but compute meanwhile")
    asked.add_argument("--seconds", type=float, default=1800, help="how long it may take")
    options = asked.parse_args()
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.default_int_handler)
    if reason := docker_bed.missing():
        print(f"No burst is possible here: {reason}.")
        return 2
    home = Path(tempfile.mkdtemp(prefix="ls-burst-"))
    clean = _burst(home, options.jobs, options.nodes, options.load, options.seconds)
    if clean:
        shutil.rmtree(home, ignore_errors=True)
    else:
        print(f"The portal's own words are kept in {home}.")
    return int(not clean)


def _burst(home: Path, jobs: int, nodes: int, load: int, seconds: float) -> bool:
    with ExitStack() as stack:
        bed = docker_bed.Bed()
        stack.callback(bed.down)
        portal = Portal(home, f"unix://{home}/no-engine-here")
        there = bed.up(nodes)
        each = -(-jobs // nodes)  # jobs on a node: all have room at once, and every node is needed
        for node in there:
            stack.callback(remove_containers, node, portal)
        stack.callback(portal.close)
        portal.start()
        for node in there:
            ensure_sample_image(DockerRuntime(node.unix))
            portal.add_node(node, cpuNumber=each, memoryMB=200 * each)
        portal.wait_ready()
        for _ in range(load):
            busy = subprocess.Popen(BUSY)
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        names = [f"burst-{number}" for number in range(jobs)]
        began = time.monotonic()
        with ThreadPoolExecutor(SUBMITTERS) as submitters:
            list(submitters.map(lambda name: _submit(portal, name), names))
        print(f"{jobs} jobs submitted in {time.monotonic() - began:.0f} s", flush=True)
        _wait(portal, began, seconds)
        return _told(portal, jobs, time.monotonic() - began)


def _wait(portal: Portal, began: float, seconds: float) -> None:
    """Until all jobs have ended, or that takes too long."""
    while (passed := time.monotonic() - began) < seconds:
        states = dict(portal.rows("SELECT state, count(*) FROM jobs_job GROUP BY state"))
        unwell = portal.rows("SELECT name FROM clusters_node WHERE health <> 'ready'")
        print(f"{passed:5.0f} s  load {os.getloadavg()[0]:4.1f}  {states}  {unwell or ''}", flush=True)
        if set(states) <= set(ENDS):
            return
        time.sleep(EVERY)


def _told(portal: Portal, jobs: int, seconds: float) -> bool:
    ((right, retries),) = portal.rows(
        "SELECT sum(CASE WHEN state = 'SUCCEEDED' THEN 1 ELSE 0 END), sum(platform_retries) FROM jobs_job"
    )
    away = portal.rows("SELECT count(*) FROM jobs_event WHERE kind = 'node.unreachable'")[0][0]
    on = dict(portal.rows("SELECT node, count(*) FROM jobs_task GROUP BY node"))
    print(f"{right} of {jobs} right, {retries} platform retries, node not heard {away} times, {seconds:.0f} s, on {on}")
    return bool(right == jobs and not retries)


def _submit(portal: Portal, name: str) -> None:
    answer = portal.http.post("/jobs", json=config(name, "sleep 1", cpuNumber=1, memoryMB=100), timeout=LIMIT)
    assert answer.status_code == 201, answer.text


if __name__ == "__main__":
    sys.exit(main())
