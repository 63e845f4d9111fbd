"""Plays the day under each policy, prints what came of it side by side, and holds Longshore to the best of them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from benchmarks.policy.workload import DAY, GPUS_A_NODE, a_cluster, a_day
from benchmarks.report import Report
from jobs.planning.replay.cluster import Run
from jobs.planning.replay.day import Day, Played
from jobs.planning.replay.easy import Easy
from jobs.planning.replay.outcome import CLASSES, Outcome, Setting, sum_up
from jobs.planning.replay.policies import Backfill, Fifo, Longshore, Policy

POLICIES: tuple[type[Policy], ...] = (Fifo, Backfill, Easy, Longshore)
STEP, LATEST = 30.0, 3 * DAY  # seconds between two looks; whatever has not started then is starved
NODES, LOAD, SEED = 1_000, 1.2, 1  # LONGSHORE_BENCH_POLICY="100 1.2 1" plays a smaller day


def measure(report: Report) -> None:
    nodes, load, seed = os.environ.get("LONGSHORE_BENCH_POLICY", f"{NODES} {LOAD} {SEED}").split()
    runs = a_day(int(nodes), float(load), int(seed))
    report.title(f"Policy: {len(runs)} jobs on {nodes} nodes of 8 GPUs in a day, {load} x what they can do")
    found: dict[type[Policy], Outcome] = {}
    for kind in POLICIES:
        policy = kind()
        found[kind], played = _play(runs, int(nodes), policy)
        _show(report, policy.name, found[kind], int(nodes), len(runs), played)
    _judge(report, found[Longshore], found[Fifo], found[Easy])


def _play(runs: Sequence[Run], nodes: int, policy: Policy) -> tuple[Outcome, Played]:
    cluster = a_cluster(nodes)
    played = Day(runs, cluster, policy, step=STEP, look=STEP).play(LATEST, clock=time.process_time)
    if played.refused:
        raise AssertionError(f"{policy.name} started jobs where there was no room")
    return sum_up(runs, played.spans, Setting(DAY, nodes * GPUS_A_NODE, "gpu", cluster.quotas)), played


def _show(report: Report, name: str, one: Outcome, nodes: int, jobs: int, played: Played) -> None:
    waits = ", ".join(f"{size} {_minutes(each.mean)}/{_minutes(each.p95)}" for size, each in one.waits.items())
    report.add(f"{name}: utilisation, fairness", f"{one.utilisation:.3f}, {one.fairness or 0:.3f}")
    report.add(f"{name}: wait in minutes, mean/p95", waits)
    hours = one.utilisation * DAY / 3600 * nodes * GPUS_A_NODE
    lost = f"{1000 * one.evictions / jobs:.0f} of 1,000 jobs, {100 * one.lost / hours:.1f} % of GPU-hours"
    report.add(
        f"{name}: evictions, starved", f"{lost}, {one.not_started} starved", f"{played.decided:.0f} s of CPU to decide"
    )


def _judge(report: Report, ours: Outcome, fifo: Outcome, easy: Outcome) -> None:
    _, one, few, _, large = CLASSES
    for size, beside, target in ((one, easy, 1.3), (few, easy, 1.3), (large, fifo, 1.0)):
        ratio = ours.waits[size].mean / max(60.0, beside.waits[size].mean)  # less than a minute is no wait
        name = "EASY" if beside is easy else "FIFO"
        report.add(f"mean wait of {size} beside {name}", f"{ratio:.2f} x", target=f"<= {target} x", ok=ratio <= target)
    worse = easy.utilisation - ours.utilisation
    report.add("utilisation below EASY", f"{100 * worse:.1f} %", target="<= 2 %", ok=worse <= 0.02)
    report.add("starved", str(ours.not_started), target="0", ok=ours.not_started == 0)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}"
