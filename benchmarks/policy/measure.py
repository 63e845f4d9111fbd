"""Plays the day under each policy, prints what came of it side by side, and holds Longshore to the best of them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.policy.workload import DAY, GPUS_A_NODE, a_cluster, a_day
from benchmarks.report import Report
from benchmarks.sizes import size
from jobs.forecast.errors import Corrections, Moments, PastForecast, ShownForecast, score
from jobs.forecast.play import starts
from jobs.planning.queue.lengths import Lengths
from jobs.replay.day import Chosen, Day, PlacedRun, ReplayCluster, ReplayPolicy, Run
from jobs.replay.outcome import CLASSES, DayOutcome, Setting, sum_up
from jobs.replay.policies import Backfill, Easy, Fifo, Longshore

# Seconds between two looks, and of what is played: whatever has not started then is starved.
STEP, LATEST = size((30.0, 3 * DAY), (1800.0, DAY))
NODES, LOAD, SEED = size(1_000, 2), 1.2, 1  # LONGSHORE_BENCH_POLICY="100 1.2 1" plays a smaller day


EARLY = 2  # forecasts, in which little is learnt
FORESEE_EVERY, FORESEEN_SECONDS = size((3600.0, 3.0), (14_400.0, 0.1))  # of the day; of CPU for one forecast


@dataclass
class Said:
    """A forecast, in milliseconds: as the queue was played, and as it was shown with what was known of errors."""

    id: int
    vc: str
    made: int
    played: Moments
    shown: Moments
    started: int | None = None


class Foreseeing(Longshore):
    """Says every hour when those that wait will start; what it has learnt is of this day alone, so it begins with
    nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Said] = []
        self.seconds = 0.0
        self._due = 0.0
        self._open: dict[int, list[Said]] = {}

    def decide(self, cluster: ReplayCluster) -> Chosen:
        decision = super().decide(cluster)
        if self._due <= cluster.now < DAY and cluster.running:
            self._due = cluster.now + FORESEE_EVERY
            self._foresee(cluster, {start.run.id for start in decision[0]})
        for start in decision[0]:
            for one in self._open.pop(start.run.id, ()):
                one.started = round(1000 * cluster.now)
        return decision

    def _foresee(self, cluster: ReplayCluster, starting: Collection[int]) -> None:
        scene, began = self.scene(cluster), time.process_time()
        lengths, now = Lengths(self._ended), cluster.at(cluster.now)

        def length(run: Run) -> Sequence[float]:
            ran = (now - run.started_at).total_seconds() if run.started_at is not None else 0.0
            return lengths.quantiles(run.like, ran, run.most_seconds)

        def spent() -> float:
            return (time.process_time() - began) / FORESEEN_SECONDS

        waiting = list(cluster.waiting.values())
        found = starts(waiting, scene, length, spent).spreads if lengths else {}
        midnight, made = cluster.at(0.0), round(1000 * cluster.now)
        known = Corrections(
            (PastForecast(one.vc, one.made, one.played, one.started) for one in reversed(self.said)), made
        )
        for id in found.keys() - starting:
            p10, p50, p90 = (round(1000 * (each - midnight).total_seconds()) for each in found[id])
            vc, played = cluster.waiting[id].vc, (p10, p50, p90)
            said = Said(id, vc, made, played, known.corrected(vc, made, played))
            self.said.append(said)
            self._open.setdefault(id, []).append(said)
        self.seconds += time.process_time() - began


def _calibration(report: Report, policy: Foreseeing) -> None:
    """How many of the starts that were foreseen fell between p10 and p90: at first, when little is learnt, and after
    that, beside what the same play says uncorrected. A job that was not seen to start does not count."""
    for is_early, when in ((True, f"by the first {EARLY} forecasts"), (False, "by those after")):
        some = [one for one in policy.said if (one.made < 1000 * EARLY * FORESEE_EVERY) == is_early]
        _tell(report, f"starts between p10 and p90 {when}", [_shown(one, one.shown) for one in some], aims=True)
        _tell(report, "  the same, uncorrected", [_shown(one, one.played) for one in some], aims=False)
    report.add(
        "forecasts", f"{policy.seconds:.0f} s of CPU", f"{len(policy.said):,} of jobs that waited, one each hour"
    )


def _shown(one: Said, moments: Moments) -> ShownForecast | None:
    return None if one.started is None else ShownForecast(one.made, *moments, None, None, one.started)


def _tell(report: Report, name: str, seen: Sequence[ShownForecast | None], *, aims: bool) -> None:
    all_ = [one for one in seen if one is not None]
    one = score(all_)
    part = "-" if one.within is None else f"{100 * one.within:.0f} %"
    told = f"{one.scored:,} starts; before it {100 * (one.early or 0):.0f} %, after it {100 * (one.late or 0):.0f} %"
    told += f"; median error {_minutes((one.median_error or 0) / 1000)} min"
    if all_:
        told += f"; median width {_minutes(median(each.p90 - each.p10 for each in all_) / 1000)} min"
    if aims:
        report.add(name, part, told, "80 % +- 5", one.meets_aim)
    else:
        report.add(name, part, told)


POLICIES: tuple[type[ReplayPolicy], ...] = (Fifo, Backfill, Easy, Foreseeing)


def measure(report: Report) -> None:
    nodes, load, seed = os.environ.get("LONGSHORE_BENCH_POLICY", f"{NODES} {LOAD} {SEED}").split()
    runs = a_day(int(nodes), float(load), int(seed))
    report.title(f"Policy: {len(runs)} jobs on {nodes} nodes of 8 GPUs in a day, {load} x what they can do")
    found: dict[type[ReplayPolicy], DayOutcome] = {}
    for kind in POLICIES:
        policy = kind()
        found[kind], seconds = _play(runs, int(nodes), policy)
        _show(report, policy.name, found[kind], int(nodes), len(runs), seconds)
        if isinstance(policy, Foreseeing):
            _calibration(report, policy)
    _judge(report, found[Foreseeing], found[Fifo], found[Easy])


class Timed(ReplayPolicy):
    """A policy with the seconds of CPU that it takes to decide."""

    def __init__(self, policy: ReplayPolicy) -> None:
        self.policy, self.name, self.seconds = policy, policy.name, 0.0

    def decide(self, cluster: ReplayCluster) -> Chosen:
        began = time.process_time()
        try:
            return self.policy.decide(cluster)
        finally:
            self.seconds += time.process_time() - began

    def ended(self, placed: PlacedRun) -> None:
        self.policy.ended(placed)


def _play(runs: Sequence[Run], nodes: int, policy: ReplayPolicy) -> tuple[DayOutcome, float]:
    cluster, timed = a_cluster(nodes), Timed(policy)
    played = Day(runs, cluster, timed, step=STEP, look=STEP).play(LATEST)
    if played.refused:
        raise AssertionError(f"{policy.name} started jobs where there was no room")
    return sum_up(runs, played.stays, Setting(DAY, nodes * GPUS_A_NODE, "gpu", cluster.quotas)), timed.seconds


def _show(report: Report, name: str, one: DayOutcome, nodes: int, jobs: int, seconds: float) -> None:
    waits = ", ".join(f"{size} {_minutes(each.mean)}/{_minutes(each.p95)}" for size, each in one.waits.items())
    report.add(f"{name}: utilisation, fairness", f"{one.utilisation:.3f}, {one.fairness or 0:.3f}")
    report.add(f"{name}: wait in minutes, mean/p95", waits)
    hours = one.utilisation * DAY / 3600 * nodes * GPUS_A_NODE
    lost = f"{1000 * one.evictions / jobs:.0f} of 1,000 jobs, {100 * one.lost / hours:.1f} % of GPU-hours"
    report.add(f"{name}: evictions, starved", f"{lost}, {one.not_started} starved", f"{seconds:.0f} s of CPU to decide")


def _judge(report: Report, ours: DayOutcome, fifo: DayOutcome, easy: DayOutcome) -> None:
    _, one, few, _, large = CLASSES
    for kind, beside, target in ((one, easy, 1.3), (few, easy, 1.3), (large, fifo, 1.0)):
        if kind not in ours.waits:  # a small day has none of the large ones
            continue
        ratio = ours.waits[kind].mean / max(60.0, beside.waits[kind].mean)  # less than a minute is no wait
        name = "EASY" if beside is easy else "FIFO"
        report.add(f"mean wait of {kind} beside {name}", f"{ratio:.2f} x", target=f"<= {target} x", ok=ratio <= target)
    worse = easy.utilisation - ours.utilisation
    report.add("utilisation below EASY", f"{100 * worse:.1f} %", target="<= 2 %", ok=worse <= 0.02)
    report.add("starved", str(ours.not_started), target="0", ok=ours.not_started == 0)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}"
