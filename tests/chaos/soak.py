"""Hours of random jobs, people and faults, and whether the memory and the descriptors of every process stay flat.

    .venv/bin/python -m tests.chaos.soak --minutes 120 --database postgres

The portal's own processes are not killed here, as `make chaos` does it: one that was begun anew would hide what it
leaks. Ends with 0 when nothing was wrong, stuck, leaked or doubled, no answer was an error, and everything is flat.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.acceptance.portal import Portal
from tests.bed import docker_bed, postgres_bed
from tests.chaos import plan
from tests.chaos.trial import trial
from tests.chaos.visitors import Footprint, Visitors, footprint

NODES = 3
EVERY = 30  # seconds between two looks at the processes
GROWN_MB, GROWN = 10, 1.1  # what the last quarter may have more than the second: so many MB, and this factor
GROWN_FILES = 20
KILLS = ("kill", "stall", "second", "usurp")  # faults that end or replace a process of the portal


class Watch(threading.Thread):
    """Looks at the portal's processes until it is told to end."""

    def __init__(self, portal: Portal) -> None:
        super().__init__(daemon=True)
        self.portal, self.over = portal, threading.Event()
        self.seen: list[dict[str, Footprint]] = []

    def run(self) -> None:
        while not self.over.wait(EVERY):
            self.seen.append(footprint(self.portal))

    def grown(self) -> list[str]:
        """A sentence for each kind of process that the last quarter saw larger than the second."""
        quarter = len(self.seen) // 4
        found = []
        for kind in self.seen[-1] if quarter else ():
            early = [looked[kind] for looked in self.seen[quarter : 2 * quarter] if kind in looked]
            late = [looked[kind] for looked in self.seen[-quarter:] if kind in looked]
            if not early or not late:
                continue
            memory_then, memory = (median(one.memory for one in looks) for looks in (early, late))
            files_then, files = (median(one.own for one in looks) for looks in (early, late))
            print(f"{kind}: {memory_then:.0f} -> {memory:.0f} MB, {files_then:.0f} -> {files:.0f} descriptors")
            if memory > memory_then * GROWN + GROWN_MB:
                found.append(f"{kind} has grown from {memory_then:.0f} to {memory:.0f} MB")
            if files > files_then + GROWN_FILES:
                more = (late[-1].files - early[0].files).most_common(5)
                found.append(f"{kind} has {files - files_then:.0f} more descriptors: {more}")
        return found


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.chaos.soak")
    asked.add_argument("--minutes", type=float, default=120)
    asked.add_argument("--database", choices=("sqlite", "postgres"), default="postgres")
    asked.add_argument("--people", type=int, default=17)
    asked.add_argument("--browsers", type=int, default=3)
    asked.add_argument("--pace", type=float, default=6, help="seconds between two submissions of the trial itself")
    asked.add_argument("--seed", type=int, default=1)
    options = asked.parse_args()
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.default_int_handler)
    if reason := docker_bed.missing() or (postgres_bed.missing() if options.database == "postgres" else ""):
        print(f"No soak is possible here: {reason}.")
        return 2
    return _soak(options)


def _soak(options: argparse.Namespace) -> int:
    seconds = options.minutes * 60
    jobs, faults = int(seconds / options.pace), int(seconds / 60)
    print(f"{options}; load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores at the start", flush=True)
    home = Path(tempfile.mkdtemp(prefix="ls-soak-"))
    with ExitStack() as stack:
        bed = docker_bed.Bed()
        stack.callback(bed.down)
        nodes = bed.up(NODES, BED_GPU="4")
        server = postgres_bed.Postgres() if options.database == "postgres" else None
        if server is not None:
            stack.callback(server.close)
        thrown = plan.throw(options.seed, jobs, faults, options.database, NODES, pace=options.pace)
        deeds = [deed for deed in thrown if not deed.what.startswith(KILLS)]
        with trial(home, nodes, server, options.seed) as one:
            visitors, watch = Visitors(one.portal, options.people, options.browsers, options.seed), Watch(one.portal)
            watch.start()
            visitors.start()
            one.whole = visitors.end
            result = one.run(deeds)
            watch.over.set()
            watch.join()
            grown = watch.grown()
    print(result)
    asked = ", ".join(f"{n} x {code}" for code, n in sorted(visitors.asked.items()))
    print(f"{options.people} people and {options.browsers} browsers asked: {asked}; wrong: {len(visitors.wrong)}")
    for sentence in [*visitors.wrong[:40], *grown]:
        print(f"  {sentence}")
    if failed := not result.clean or bool(visitors.wrong) or bool(grown):
        print(f"The portal's own words are kept in {home}.")
    else:
        shutil.rmtree(home, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
