"""Reads virtual clusters: what each is guaranteed, what it uses, what there is, and its jobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clusters.models import Allocation, Node, VirtualCluster
from clusters.placement.shares import Right
from clusters.vcs.rules import DEFAULT, part_of, rest_of
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
    """One virtual cluster. ``capacity`` and ``max_capacity`` are percent of the cluster, ``total`` its part of it."""

    name: str
    capacity: float
    max_capacity: float
    status: str
    used: Amount
    total: Amount
    used_percent: float
    nodes: tuple[str, ...] = field(default=())
    jobs: LiveJobs = NO_JOBS
    profile: str = VirtualCluster.Profile.DEFAULT
    rdma: bool = False
    store_quota: int | None = None


def load_vcs() -> list[VcView]:
    """All virtual clusters, ``default`` first, then by name. Five queries, however many there are."""
    names, whole = _cluster()
    used, jobs = _used(), about_jobs().live("vc")
    rows = {vc.name: vc for vc in VirtualCluster.objects.exclude(name=DEFAULT).order_by("name")}
    rest = rest_of(vc.capacity for vc in rows.values())
    status = VirtualCluster.objects.filter(name=DEFAULT).values_list("status", flat=True).first()
    default = VirtualCluster(name=DEFAULT, capacity=rest, max_capacity=100, status=status or "RUNNING")
    return [
        _view(vc, used.get(vc.name, Amount()), whole, names, jobs.get(vc.name, NO_JOBS))
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


def _cluster() -> tuple[tuple[str, ...], Amount]:
    names, whole = [], Amount()
    for name, cpus, memory_mb, gpus in Node.objects.order_by("name").values_list("name", "cpus", "memory_mb", "gpus"):
        names.append(name)
        whole.add(cpus, memory_mb, len(gpus))
    return tuple(names), whole


def _used() -> dict[str, Amount]:
    used: dict[str, Amount] = {}
    rows = Allocation.objects.order_by().values_list("vc", "cpus", "memory_mb", "gpu_ids")
    for vc, cpus, memory_mb, gpu_ids in rows.iterator(chunk_size=2000):
        used.setdefault(vc, Amount()).add(cpus, memory_mb, len(gpu_ids))
    return used


def _view(vc: VirtualCluster, used: Amount, whole: Amount, nodes: tuple[str, ...], jobs: LiveJobs) -> VcView:
    total = Amount(*(part_of(each, vc.capacity) for each in (whole.cpus, whole.memory_mb, whole.gpus)))
    percent = used.percent_of(whole)
    shares = (vc.name, vc.capacity, vc.max_capacity, vc.status, used, total, percent)
    return VcView(*shares, nodes, jobs, vc.profile, vc.rdma, vc.store_quota)
