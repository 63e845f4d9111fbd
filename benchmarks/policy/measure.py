"""Plays the day under each policy, prints what came of it side by side, and holds Longshore to the best of them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.policy.workload import DAY, GPUS_A_NODE, a_cluster, a_day
from benchmarks.report import Report
from benchmarks.sizes import size
from jobs.forecast.arrivals import Arrivals
from jobs.forecast.errors import Corrections, Moments, PastForecast, ShownForecast, score
from jobs.forecast.play import at_limits, starts
from jobs.planning.queue.lengths import Lengths
from jobs.replay.day import Chosen, Day, PlacedRun, ReplayCluster, ReplayPolicy, Run
from jobs.replay.outcome import CLASSES, DayOutcome, Setting, sum_up
from jobs.replay.policies import Backfill, Easy, Fifo, Longshore

# Seconds between two looks, and of what is played: whatever has not started then is starved.
STEP, LATEST = size((30.0, 3 * DAY), (1800.0, DAY))
NODES, LOAD, SEED = size(1_000, 2), 1.2, 1  # LONGSHORE_BENCH_POLICY="100 1.2 1" plays a smaller day
_MS = 1000.0  # milliseconds of a second

FORESEE_EVERY, FORESEEN_SECONDS = size((3600.0, 6.0), (14_400.0, 0.1))  # of the day; of CPU for one forecast
NO_LIMIT = DAY  # what a job without a limit counts for where only limits count


@dataclass
class Said:
    """A forecast, in milliseconds: as the queue was played, as it was shown with what was known of errors, and what
    others would have said."""

    id: int
    vc: str
    made: int
    played: Moments
    shown: Moments
    guess: int
    by_limit: int | None
    started: int | None = None


class Foreseeing(Longshore):
    """Says every hour when those that wait will start. On its first day it begins with nothing; on one ``after`` that
    it knows how long jobs ran, which ones came, and how far off its forecasts were."""

    def __init__(self, after: Foreseeing | None = None) -> None:
        super().__init__(after._ended if after else ())
        self.said: list[Said] = []
        self.seconds = 0.0
        self._due = 0.0
        self._open: dict[int, list[Said]] = {}
        self._came: list[tuple[float, Run]] = [(at - DAY, run) for at, run in after._came] if after else []
        self._seen: set[int] = set()
        self._waits: dict[str, float] = {}  # of the last job that started, by virtual cluster
        self._before = [_past(said, -_MS * DAY) for said in after.said] if after else []

    def decide(self, cluster: ReplayCluster) -> Chosen:
        new = cluster.waiting.keys() - self._seen
        self._seen |= new
        self._came += [(cluster.waiting[id].submitted, cluster.waiting[id]) for id in new]
        decision = super().decide(cluster)
        if self._due <= cluster.now < DAY and cluster.running:
            self._due = cluster.now + FORESEE_EVERY
            self._foresee(cluster, {start.run.id for start in decision[0]})
        for start in decision[0]:
            self._waits[start.run.vc] = cluster.now - start.run.submitted
            for one in self._open.pop(start.run.id, ()):
                one.started = round(_MS * cluster.now)
        return decision

    def _foresee(self, cluster: ReplayCluster, starting: Collection[int]) -> None:
        scene, began = self.scene(cluster), time.process_time()
        lengths, now = Lengths(self._ended), cluster.at(cluster.now)

        def length(run: Run) -> Sequence[float]:
            ran = (now - run.started_at).total_seconds() if run.started_at is not None else 0.0
            return lengths.quantiles(run.like, ran, run.most_seconds)

        def spent() -> float:
            return (time.process_time() - began) / FORESEEN_SECONDS

        waiting, came = list(cluster.waiting.values()), Arrivals(self._came)
        coming = partial(came.coming, cluster.now)
        found = starts(waiting, scene, length, spent, coming=coming).spreads if lengths else {}
        midnight, made = cluster.at(0.0), round(_MS * cluster.now)
        known = Corrections([*map(_past, reversed(self.said)), *reversed(self._before)], made)
        self.seconds += time.process_time() - began
        began = time.process_time()
        limits = at_limits(waiting, scene, lambda run: float(run.most_seconds or NO_LIMIT), spent) if found else {}
        for id in found.keys() - starting:
            p10, p50, p90 = (round(_MS * (each - midnight).total_seconds()) for each in found[id])
            run, played = cluster.waiting[id], (p10, p50, p90)
            guess = round(_MS * max(cluster.now, run.submitted + self._waits.get(run.vc, 0.0)))
            by_limit = made + round(_MS * limits[id]) if id in limits else None
            said = Said(id, run.vc, made, played, known.corrected(run.vc, made, played), guess, by_limit)
            self.said.append(said)
            self._open.setdefault(id, []).append(said)


def _past(one: Said, later: float = 0.0) -> PastForecast:
    """As it is remembered, by a clock that says so many milliseconds ``later``."""
    p10, p50, p90 = (round(each + later) for each in one.played)
    started = None if one.started is None else round(one.started + later)
    shown = [round(each + later) for each in one.shown]
    return PastForecast(one.vc, round(one.made + later), (p10, p50, p90), started, shown)


def _calibration(report: Report, policy: Foreseeing, day: str) -> None:
    """How many of the starts that were foreseen fell between p10 and p90, beside what the same play says uncorrected,
    and the errors of others. A job that was not seen to start does not count."""
    came = [one for one in policy.said if one.started is not None]
    _tell(report, f"starts between p10 and p90, {day}", [_shown(one, one.shown) for one in came], aims=True)
    _tell(report, "  the same, uncorrected", [_shown(one, one.played) for one in came], aims=False)
    report.add(
        "forecasts", f"{policy.seconds:.0f} s of CPU", f"{len(policy.said):,} of jobs that waited, one each hour"
    )


def _shown(one: Said, moments: Moments) -> ShownForecast:
    return ShownForecast(one.made, *moments, one.guess, one.by_limit, one.started or 0)


def _tell(report: Report, name: str, seen: Sequence[ShownForecast], *, aims: bool) -> None:
    one = score(seen)
    part = "-" if one.within is None else f"{100 * one.within:.0f} %"
    told = f"{one.scored:,} starts; before it {100 * (one.early or 0):.0f} %, after it {100 * (one.late or 0):.0f} %"
    if seen:
        told += f"; median width {_minutes(median(each.p90 - each.p10 for each in seen) / _MS)} min"
    told += f"; median error {_minutes((one.median_error or 0) / _MS)} min"
    if not aims:
        report.add(name, part, told)
        return
    told += f", by limits alone {_minutes((one.median_error_by_limit or 0) / _MS)}"
    told += f", as the last job waited {_minutes((one.median_error_of_guess or 0) / _MS)}"
    report.add(name, part, told, "80 % +- 5", one.meets_aim)


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
            _calibration(report, policy, "first day")
            second = Foreseeing(policy)
            _play(a_day(int(nodes), float(load), int(seed), later=1), int(nodes), second)
            _calibration(report, second, "day after")
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
