"""A day of jobs with the shape that traces of shared GPU clusters have: most ask for one GPU and are short, few are
large and long, a small part of the jobs takes most of the GPU-hours, and the day is busier than the night.

The shape follows what was published about Microsoft's Philly (Jeon et al., USENIX ATC 2019) and SenseTime's Helios (Hu
et al., SC 2021); the parameters below are of this file, not of a trace.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache

from clusters.placement.fit import Demand, NodeView
from clusters.placement.shares import Right, pool_totals, quotas
from jobs.planning.queue.scene import since_text
from jobs.replay.day import ReplayCluster, Run

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400.0  # seconds
GPUS_A_NODE, CPUS, MEMORY_MB = 8, 128, 1_000_000
# GPUs of a job, and how many of a thousand jobs ask for them.
SIZES = {1: 620, 2: 90, 4: 100, 8: 120, 16: 35, 32: 20, 64: 10, 128: 4, 256: 1}
MEDIAN = 600.0  # seconds that half of the jobs of one GPU stay below; larger jobs run longer
SIGMA_USER, SIGMA_RUN = 1.4, 1.0  # of the logarithm: between projects, and between runs of one project
LONGEST = DAY
# Demand of the virtual clusters; each has the same guarantee, so some borrow and some lend.
DEMAND = (4.0, 3.0, 2.0, 2.0, 1.5, 1.0, 0.7, 0.3)
USERS, PROJECTS = 20, 4  # of each virtual cluster, and of each user
PREEMPTIBLE, LIMITED = 0.1, 0.2  # part of the jobs that say so; the limit is some times what they run


def a_cluster(nodes: int) -> ReplayCluster:
    """Idle nodes, and virtual clusters with the same guarantee each, which may borrow everything."""
    views = [_node(at) for at in range(nodes)]
    rights = {f"vc{at}": Right(capacity=100 / len(DEMAND)) for at in range(len(DEMAND))}
    return ReplayCluster.of(views, quotas(rights, *pool_totals(views)), MIDNIGHT)


def a_day(nodes: int, load: float, seed: int, later: int = 0) -> Sequence[Run]:
    """The jobs of a day that together ask for ``load`` times the GPU-hours which the nodes have in it, by time. So many
    days ``later`` others come, of the same projects."""
    rng = random.Random(seed)
    usual = {
        (vc, user, project): rng.gauss(0.0, SIGMA_USER)
        for vc in range(len(DEMAND))
        for user in range(USERS)
        for project in range(PROJECTS)
    }
    rng = random.Random(f"{seed} {later}") if later else rng
    wanted, runs = load * nodes * GPUS_A_NODE * DAY, list[Run]()
    while wanted > 0:
        one = _run(rng, len(runs), usual)
        runs.append(one)
        wanted -= one.gpus * one.seconds
    return sorted(runs, key=lambda one: (one.submitted, one.id))


def _run(rng: random.Random, id: int, usual: dict[tuple[int, int, int], float]) -> Run:
    vc = rng.choices(range(len(DEMAND)), DEMAND)[0]
    user, project = rng.randrange(USERS), rng.randrange(PROJECTS)
    gpus = rng.choices(list(SIZES), list(SIZES.values()))[0]
    median = MEDIAN * (1 + math.log2(gpus))
    duration = min(LONGEST, median * math.exp(usual[vc, user, project] + rng.gauss(0.0, SIGMA_RUN)))
    submitted = _moment(rng)
    return Run(
        id=id,
        vc=f"vc{vc}",
        username=f"user-{vc}-{user}",
        name=f"project-{'abcdefgh'[project]}",
        since=since_text(MIDNIGHT + timedelta(seconds=submitted)),
        demands=_shape(gpus),
        submitted=submitted,
        seconds=max(10.0, duration),
        is_preemptible=rng.random() < PREEMPTIBLE,
        most_seconds=int(duration * rng.uniform(1.2, 4.0)) if rng.random() < LIMITED else None,
    )


@cache
def _shape(gpus: int) -> tuple[Demand, ...]:
    """A job of more than a node's GPUs is a gang of whole nodes."""
    tasks, each = max(1, gpus // GPUS_A_NODE), min(gpus, GPUS_A_NODE)
    return tuple(Demand(f"worker-{at}", "worker", at, 4 * each, 8_000 * each, each, "") for at in range(tasks))


def _node(at: int) -> NodeView:
    gpus = tuple((str(id), "") for id in range(GPUS_A_NODE))
    return NodeView(f"n{at:05}", "10.0.0.1", CPUS, MEMORY_MB, gpus, 30_000, 39_999)


def _moment(rng: random.Random) -> float:
    """Three times as busy at its peak, in the afternoon, as at night."""
    while True:
        at = rng.uniform(0.0, DAY)
        if rng.uniform(0.0, 1.5) < 1.0 - 0.5 * math.cos(2 * math.pi * (at / DAY - 1 / 12)):
            return at
