"""Reads virtual clusters: what each is guaranteed, what it uses, what there is, and its jobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clusters.models import Allocation, Node, VirtualCluster
from clusters.placement.shares import Right
from clusters.vcs.rules import DEFAULT, Gpus, part_of, rest_of
from portal.core.signals import NO_JOBS, LiveJobs, about_jobs


@dataclass(slots=True)
class Amount:
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def add(self, cpus: int, memory_mb: int, gpus: int) -> None:
        self.cpus += cpus
        self.memory_mb += memory_mb
        self.gpus += gpus

    def percent_of(self, whole: Amount) -> float:
        """The percentage of the resource that it takes the largest share of."""
        pairs = ((self.cpus, whole.cpus), (self.memory_mb, whole.memory_mb), (self.gpus, whole.gpus))
        return round(100 * max((mine / all_ for mine, all_ in pairs if all_), default=0.0), 2)


@dataclass(frozen=True, slots=True)
class VcView:
    """One virtual cluster. ``capacity`` and ``max_capacity`` are percent of the pool; ``total`` is its part of the pool
    and its own nodes. ``nodes`` are those on which its jobs may run, ``own`` those dedicated to it. ``row`` has what an
    admin has set beside."""

    name: str
    capacity: float
    max_capacity: float
    status: str
    used: Amount
    total: Amount
    used_percent: float
    row: VirtualCluster
    guaranteed: float  # ``total`` as a percentage of all GPUs of the cluster, and the most that it may use
    most: float
    most_gpus: int
    nodes: tuple[str, ...] = field(default=())
    own: tuple[str, ...] = ()
    jobs: LiveJobs = NO_JOBS


def load_vcs() -> list[VcView]:
    """All virtual clusters, ``default`` first, then by name. Four queries, however many there are."""
    cluster, used, jobs = _cluster(), _used(), about_jobs().live("vc")
    rows = {vc.name: vc for vc in VirtualCluster.objects.order_by("name")}
    default = rows.pop(DEFAULT, VirtualCluster(name=DEFAULT))
    default.capacity, default.max_capacity = rest_of(vc.capacity for vc in rows.values()), 100.0
    numbers = {vc.name: vc.gpu_guarantee for vc in rows.values()}
    if any(number is not None for number in numbers.values()):
        taken = sum(Gpus(vc.capacity, vc.gpu_guarantee).of(cluster.pool.gpus) for vc in rows.values())
        numbers[DEFAULT] = max(0, int(cluster.pool.gpus - taken))
    return [
        _view(vc, used.get(vc.name, Amount()), cluster, numbers.get(vc.name), jobs.get(vc.name, NO_JOBS))
        for vc in (default, *rows.values())
    ]


def load_rights() -> dict[str, Right]:
    """What each virtual cluster has a right to, by name; ``default`` is there also without a row. One query."""
    rows = {vc.name: vc for vc in VirtualCluster.objects.only(*_RIGHT)}
    found = {name: _right(vc, vc.capacity, vc.max_capacity) for name, vc in rows.items() if name != DEFAULT}
    rest = rest_of(right.capacity for right in found.values())
    default = _right(rows.get(DEFAULT, VirtualCluster(name=DEFAULT)), rest, 100.0)
    return found | {DEFAULT: replace(default, has_rest=True)}


_RIGHT = ("name", "capacity", "max_capacity", "gpu_guarantee", "gpu_ceiling", "user_gpus", "user_jobs", "status")


def _right(vc: VirtualCluster, capacity: float, max_capacity: float) -> Right:
    return Right(
        capacity=capacity,
        max_capacity=max_capacity,
        gpu_guarantee=vc.gpu_guarantee,
        gpu_ceiling=vc.gpu_ceiling,
        user_gpus=vc.user_gpus,
        user_jobs=vc.user_jobs,
        stopped=vc.status != VirtualCluster.Status.RUNNING,
    )


@dataclass(slots=True)
class _Cluster:
    """The registered nodes by name, each with the virtual cluster to which it is dedicated, and what they have."""

    nodes: dict[str, int | None] = field(default_factory=dict)
    whole: Amount = field(default_factory=Amount)
    pool: Amount = field(default_factory=Amount)
    own: dict[int, Amount] = field(default_factory=dict)


def _cluster() -> _Cluster:
    found = _Cluster()
    rows = Node.objects.order_by("name").values_list("name", "dedicated_to_id", "cpus", "memory_mb", "gpus")
    for name, owner, cpus, memory_mb, gpus in rows:
        found.nodes[name] = owner
        part = found.pool if owner is None else found.own.setdefault(owner, Amount())
        for amount in (found.whole, part):
            amount.add(cpus, memory_mb, len(gpus))
    return found


def _used() -> dict[str, Amount]:
    used: dict[str, Amount] = {}
    rows = Allocation.objects.order_by().values_list("vc", "cpus", "memory_mb", "gpu_ids")
    for vc, cpus, memory_mb, gpu_ids in rows.iterator(chunk_size=2000):
        used.setdefault(vc, Amount()).add(cpus, memory_mb, len(gpu_ids))
    return used


def _view(vc: VirtualCluster, used: Amount, cluster: _Cluster, gpus: int | None, jobs: LiveJobs) -> VcView:
    """``gpus``: how many of the pool it is guaranteed, where that is not a percentage."""
    pool, own = cluster.pool, cluster.own.get(vc.pk, Amount())
    total = Amount(*(part_of(each, vc.capacity) for each in (pool.cpus, pool.memory_mb, pool.gpus)))
    if gpus is not None:
        total.gpus = gpus
    total.add(own.cpus, own.memory_mb, own.gpus)
    ceiling = part_of(pool.gpus, vc.max_capacity) if vc.gpu_ceiling is None else min(vc.gpu_ceiling, pool.gpus)
    most_gpus, whole = ceiling + own.gpus, max(cluster.whole.gpus, 1)
    is_plain = pool.gpus == cluster.whole.gpus and gpus is None
    return VcView(
        vc.name,
        vc.capacity,
        vc.max_capacity,
        vc.status,
        used,
        total,
        used.percent_of(cluster.whole),
        vc,
        guaranteed=vc.capacity if is_plain else round(100 * total.gpus / whole, 2),
        most=vc.max_capacity if is_plain and vc.gpu_ceiling is None else round(100 * most_gpus / whole, 2),
        most_gpus=most_gpus,
        nodes=tuple(name for name, owner in cluster.nodes.items() if owner in (None, vc.pk)),
        own=tuple(name for name, owner in cluster.nodes.items() if owner is not None and owner == vc.pk),
        jobs=jobs,
    )
