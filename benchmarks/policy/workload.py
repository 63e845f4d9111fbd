"""A day of jobs with the shape that traces of shared GPU clusters have: most ask for one GPU and are short, few are
large and long, a small part of the jobs takes most of the GPU-hours, and the day is busier than the night.

The shape follows what was published about Microsoft's Philly (Jeon et al., USENIX ATC 2019) and SenseTime's Helios (Hu
et al., SC 2021); the parameters below are of this file, not of a trace.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

DAY = 86_400.0  # seconds
GPUS_A_NODE = 8
# GPUs of a job, and how many of a thousand jobs ask for them.
SIZES = {1: 620, 2: 90, 4: 100, 8: 120, 16: 35, 32: 20, 64: 10, 128: 4, 256: 1}
MEDIAN = 600.0  # seconds that half of the jobs of one GPU stay below; larger jobs run longer
SIGMA_USER, SIGMA_RUN = 1.4, 1.0  # of the logarithm: between projects, and between runs of one project
LONGEST = DAY
# Demand of the virtual clusters; each has the same guarantee, so some borrow and some lend.
DEMAND = (4.0, 3.0, 2.0, 2.0, 1.5, 1.0, 0.7, 0.3)
USERS, PROJECTS = 20, 4  # of each virtual cluster, and of each user
PREEMPTIBLE, LIMITED = 0.1, 0.2  # part of the jobs that say so; the limit is some times what they run


@dataclass(frozen=True, slots=True)
class Wish:
    """One job. Times are seconds since the day began; a job of more than a node's GPUs is a gang of whole nodes."""

    id: int
    vc: int
    user: str
    project: str
    submitted: float
    duration: float
    gpus: int
    preemptible: bool
    max_run: float | None

    @property
    def tasks(self) -> int:
        return max(1, self.gpus // GPUS_A_NODE)

    @property
    def gpus_a_task(self) -> int:
        return min(self.gpus, GPUS_A_NODE)


def a_day(nodes: int, load: float, seed: int) -> Sequence[Wish]:
    """The jobs of a day that together ask for ``load`` times the GPU-hours which the nodes have in it, by time."""
    rng = random.Random(seed)
    usual = {
        (vc, user, project): rng.gauss(0.0, SIGMA_USER)
        for vc in range(len(DEMAND))
        for user in range(USERS)
        for project in range(PROJECTS)
    }
    wanted, wishes = load * nodes * GPUS_A_NODE * DAY, list[Wish]()
    while wanted > 0:
        one = _wish(rng, len(wishes), usual)
        wishes.append(one)
        wanted -= one.gpus * one.duration
    return sorted(wishes, key=lambda one: (one.submitted, one.id))


def _wish(rng: random.Random, id: int, usual: dict[tuple[int, int, int], float]) -> Wish:
    vc = rng.choices(range(len(DEMAND)), DEMAND)[0]
    user, project = rng.randrange(USERS), rng.randrange(PROJECTS)
    gpus = rng.choices(list(SIZES), list(SIZES.values()))[0]
    median = MEDIAN * (1 + math.log2(gpus))
    duration = min(LONGEST, median * math.exp(usual[vc, user, project] + rng.gauss(0.0, SIGMA_RUN)))
    return Wish(
        id=id,
        vc=vc,
        user=f"user-{vc}-{user}",
        project=f"project-{'abcdefgh'[project]}",
        submitted=_moment(rng),
        duration=max(10.0, duration),
        gpus=gpus,
        preemptible=rng.random() < PREEMPTIBLE,
        max_run=duration * rng.uniform(1.2, 4.0) if rng.random() < LIMITED else None,
    )


def _moment(rng: random.Random) -> float:
    """Three times as busy at its peak, in the afternoon, as at night."""
    while True:
        at = rng.uniform(0.0, DAY)
        if rng.uniform(0.0, 1.5) < 1.0 - 0.5 * math.cos(2 * math.pi * (at / DAY - 1 / 12)):
            return at
