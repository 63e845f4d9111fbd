"""``make chaos``: see the package."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.bed import docker_bed, postgres_bed
from tests.chaos import plan
from tests.chaos.trial import Result, trial

NODES = 3


def main() -> int:
    asked = argparse.ArgumentParser(prog="make chaos")
    asked.add_argument("--jobs", type=int, default=100)
    asked.add_argument("--faults", type=int, default=25)
    asked.add_argument("--seed", type=int, default=int(time.time()) % 10_000)
    asked.add_argument("--pace", type=float, default=1.5, help="seconds between two submissions")
    asked.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    options = asked.parse_args()
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.default_int_handler)  # so that what was started is stopped
    if reason := docker_bed.missing() or (postgres_bed.missing() if options.database != "sqlite" else ""):
        print(f"No trial is possible here: {reason}.")
        return 2
    databases = ("sqlite", "postgres") if options.database == "both" else (options.database,)
    return int(not all(found.clean for found in [_one(options, database) for database in databases]))


def _one(options: argparse.Namespace, database: str) -> Result:
    print(f"--jobs {options.jobs} --faults {options.faults} --seed {options.seed} --database {database}", flush=True)
    load = f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores at the start"
    home = Path(tempfile.mkdtemp(prefix="ls-chaos-"))
    with ExitStack() as stack:
        bed = docker_bed.Bed()
        stack.callback(bed.down)
        nodes = bed.up(NODES, BED_GPU="4")
        server = postgres_bed.Postgres() if database == "postgres" else None
        if server is not None:
            stack.callback(server.close)
        deeds = plan.throw(options.seed, options.jobs, options.faults, database, NODES, pace=options.pace)
        with trial(home, nodes, server, options.seed) as one:
            one.tell = lambda text: print(text, flush=True)
            result = one.run(deeds)
            if not result.clean:
                print(f"The portal's own words are kept in {home}.")
        if result.clean:
            shutil.rmtree(home, ignore_errors=True)
    print(f"{database}, seed {options.seed}, {load}\n{result}\n", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
