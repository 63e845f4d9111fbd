"""Plays the day under each policy, prints what came of it side by side, and holds Longshore to the best of them."""

from __future__ import annotations

import os
import time

from benchmarks.policy.baselines import Easy, Fifo, Naive
from benchmarks.policy.cluster import Day, Policy
from benchmarks.policy.ours import Ours
from benchmarks.policy.outcome import CLASSES, Outcome, sum_up
from benchmarks.policy.workload import a_day
from benchmarks.report import Report

POLICIES: tuple[type[Policy], ...] = (Fifo, Naive, Easy, Ours)
NODES, LOAD, SEED = 1_000, 1.2, 1  # LONGSHORE_BENCH_POLICY="100 1.2 1" plays a smaller day


def measure(report: Report) -> None:
    nodes, load, seed = os.environ.get("LONGSHORE_BENCH_POLICY", f"{NODES} {LOAD} {SEED}").split()
    wishes = a_day(int(nodes), float(load), int(seed))
    report.title(f"Policy: {len(wishes)} jobs on {nodes} nodes of 8 GPUs in a day, {load} x what they can do")
    found: dict[type[Policy], Outcome] = {}
    for kind in POLICIES:
        policy = kind()
        found[kind] = sum_up(wishes, int(nodes), Day(wishes, int(nodes), policy).play(time.process_time))
        _show(report, policy.name, found[kind])
    _judge(report, found[Ours], found[Fifo], found[Easy])


def _show(report: Report, name: str, one: Outcome) -> None:
    waits = ", ".join(f"{size} {_minutes(mean)}/{_minutes(p95)}" for size, (mean, p95) in one.waits.items())
    report.add(f"{name}: utilisation, fairness", f"{one.utilisation:.3f}, {one.fairness:.3f}")
    report.add(f"{name}: wait in minutes, mean/p95", waits)
    lost = f"{one.evictions:.0f} of 1,000 jobs, {100 * one.lost:.1f} % of GPU-hours"
    report.add(f"{name}: evictions, starved", f"{lost}, {one.starved} starved", f"{one.cpu:.0f} s of CPU to decide")


def _judge(report: Report, ours: Outcome, fifo: Outcome, easy: Outcome) -> None:
    one, few, _, large = CLASSES
    for size, beside, target in ((one, easy, 1.3), (few, easy, 1.3), (large, fifo, 1.0)):
        ratio = ours.waits[size][0] / max(60.0, beside.waits[size][0])  # less than a minute is no wait
        name = "EASY" if beside is easy else "FIFO"
        report.add(f"mean wait of {size} beside {name}", f"{ratio:.2f} x", target=f"<= {target} x", ok=ratio <= target)
    worse = easy.utilisation - ours.utilisation
    report.add("utilisation below EASY", f"{100 * worse:.1f} %", target="<= 2 %", ok=worse <= 0.02)
    report.add("starved", str(ours.starved), target="0", ok=ours.starved == 0)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}"
