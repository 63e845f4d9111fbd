"""Plays one day under one policy, or under all of them: ``python -m benchmarks.policy [nodes] [load] [seed]``."""

from __future__ import annotations

import sys
import time

from benchmarks.policy.baselines import Easy, Fifo, Naive
from benchmarks.policy.cluster import Day, Policy
from benchmarks.policy.outcome import sum_up
from benchmarks.policy.workload import a_day

POLICIES: tuple[type[Policy], ...] = (Fifo, Naive, Easy)


def main() -> None:
    given = iter(sys.argv[1:])
    nodes, load, seed = int(next(given, 1000)), float(next(given, 1.0)), int(next(given, 1))
    wishes = a_day(nodes, load, seed)
    print(f"{len(wishes)} jobs on {nodes} nodes")
    for kind in POLICIES:
        policy = kind()
        print(policy.name, sum_up(wishes, nodes, Day(wishes, nodes, policy).play(time.process_time)))


if __name__ == "__main__":
    main()
