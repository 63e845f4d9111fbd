"""Sums a played day up: how much was used, who waited how long, how fair it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.policy.cluster import Played
from benchmarks.policy.workload import DAY, DEMAND, GPUS_A_NODE, Wish
from benchmarks.report import percentile

CLASSES = {"1 GPU": (1, 1), "2-8 GPUs": (2, 8), "16-64 GPUs": (16, 64), "128+ GPUs": (128, 1 << 30)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """``waits``: (mean, p95) in seconds by class of size. ``fairness``: Jain's index over the virtual clusters of the
    GPU-time each got beside what it was entitled to, the smaller of its demand and its guarantee; 1 is fair."""

    utilisation: float
    waits: dict[str, tuple[float, float]]
    fairness: float
    evictions: float  # of 1,000 jobs
    lost: float  # part of the GPU-hours used
    starved: int
    cpu: float


def sum_up(wishes: Sequence[Wish], nodes: int, played: Played) -> Outcome:
    has = nodes * GPUS_A_NODE * DAY
    return Outcome(
        utilisation=played.used / has,
        waits={name: _waits(wishes, played, *bounds) for name, bounds in CLASSES.items()},
        fairness=_jain([_got(wishes, played, vc, has / len(DEMAND)) for vc in range(len(DEMAND))]),
        evictions=1000 * played.evictions / len(wishes),
        lost=played.lost / played.used,
        starved=played.starved,
        cpu=played.decided,
    )


def _waits(wishes: Sequence[Wish], played: Played, least: int, most: int) -> tuple[float, float]:
    waits = [played.waits[one.id] for one in wishes if least <= one.gpus <= most and one.id in played.waits]
    return (sum(waits) / len(waits), percentile(waits, 95)) if waits else (0.0, 0.0)


def _got(wishes: Sequence[Wish], played: Played, vc: int, guarantee: float) -> float:
    demand = sum(one.gpus * min(one.duration, DAY - one.submitted) for one in wishes if one.vc == vc)
    return min(1.0, played.served.get(vc, 0.0) / min(demand, guarantee))


def _jain(parts: Sequence[float]) -> float:
    return sum(parts) ** 2 / (len(parts) * sum(part * part for part in parts))
