"""Reads virtual clusters: what each is guaranteed, what it uses, what there is, and its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from django.db.models import Count, QuerySet

from base.core.bulk import values_again
from base.core.signals import NO_JOBS, LiveJobs, about_jobs
from clusters.models import Node, VirtualCluster
from clusters.nodes.queries import owner_of, registered_nodes
from clusters.placement.shares import Amount, Quota, Right, add, quotas
from clusters.taken import sums
from clusters.vcs.grants import usable_by
from clusters.vcs.rules import DEFAULT_VC, rest_of, whole_units

_NOTHING = {"cpu": 0, "memory": 0, "gpu": 0}


@dataclass(frozen=True, slots=True)
class VcView:
    """One virtual cluster: ``row`` is what an admin has set, or for ``default`` what the others leave; ``total`` is its
    part of the pool and its own nodes. ``nodes`` are those on which its jobs may run, ``own`` those dedicated to it."""

    row: VirtualCluster
    used: Mapping[str, int]  # "cpu", "memory" (MB) and "gpu"
    total: Mapping[str, int]
    used_percent: float  # of the resource that it takes the largest share of
    guaranteed: float  # ``total`` as a percentage of all GPUs of the cluster, and the most that it may use
    most: float
    most_gpus: int
    nodes: tuple[str, ...]
    own: tuple[str, ...]
    jobs: LiveJobs

    @property
    def name(self) -> str:
        return self.row.name


def load_vcs(nodes: Sequence[Node] | None = None) -> list[VcView]:
    """All virtual clusters, ``default`` first, then by name. Four queries, however many there are and whatever runs, of
    which one is not made for those who have read the ``nodes``."""
    cluster, jobs = _cluster(registered_nodes() if nodes is None else nodes), about_jobs().live("vc")
    used = {vc: dict(zip(_NOTHING, taken, strict=True)) for vc, *taken in sums("vc")}
    people = Count("grants")  # whom each was granted to
    rows = {vc.name: vc for vc in VirtualCluster.objects.annotate(people=people).order_by("name")}
    rights = _rights(rows)
    default = rows.pop(DEFAULT_VC, VirtualCluster(name=DEFAULT_VC))
    default.capacity, default.max_capacity = rights[DEFAULT_VC].capacity, rights[DEFAULT_VC].max_capacity
    numbered = {vc.name for vc in rows.values() if vc.gpu_guarantee is not None}
    quota = quotas(rights, cluster.pool, cluster.own)
    return [
        _view(vc, used.get(vc.name, _NOTHING), cluster, quota[vc.name], jobs.get(vc.name, NO_JOBS), is_numbered)
        for vc, is_numbered in [(default, bool(numbered)), *((vc, vc.name in numbered) for vc in rows.values())]
    ]


def load_rights() -> dict[str, Right]:
    """What each virtual cluster has a right to, by name; ``default`` is there also without a row. One query."""
    rows = [dict(zip(_READ, values, strict=True)) for values in values_again(_right_rows)]
    return _rights({row["name"]: VirtualCluster(**row) for row in rows})


def _right_rows() -> QuerySet[Any, Any]:
    return VirtualCluster.objects.values_list(*_READ)


def guaranteed(vc: str) -> Amount:
    """What a virtual cluster is guaranteed, by resource. Two queries."""
    cluster = _cluster(registered_nodes())
    return quotas(load_rights(), cluster.pool, cluster.own)[vc].guarantee


# Columns that a Right has too.
_OF_ROW = (
    *("capacity", "max_capacity", "gpu_guarantee", "gpu_ceiling", "user_gpus", "user_jobs"),
    *("share_half_life", "grace", "min_run"),
)
_READ = ("name", "status", *_OF_ROW)


def _rights(rows: Mapping[str, VirtualCluster]) -> dict[str, Right]:
    rights = {name: _right(vc) for name, vc in rows.items() if name != DEFAULT_VC}
    rest = rest_of(right.capacity for right in rights.values())
    default = _right(rows.get(DEFAULT_VC, VirtualCluster(name=DEFAULT_VC)))
    return rights | {DEFAULT_VC: replace(default, capacity=rest, max_capacity=100.0, has_rest=True)}


def _right(vc: VirtualCluster) -> Right:
    columns: dict[str, Any] = {name: getattr(vc, name) for name in _OF_ROW}
    return Right(**columns, stopped=vc.status != VirtualCluster.Status.RUNNING)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The virtual cluster to which each registered node is dedicated ("" for those of the pool), and what they have."""

    owners: Mapping[str, str]
    whole: Amount
    pool: Amount
    own: Mapping[str, Amount]


def _cluster(nodes: Sequence[Node]) -> _Cluster:
    owners: dict[str, str] = {}
    whole: dict[str, float] = {**_NOTHING}
    parts: dict[str, dict[str, float]] = {"": {**_NOTHING}}
    for node in nodes:
        owners[node.name] = owner_of(node)
        for part in (whole, parts.setdefault(owners[node.name], {})):
            add(part, {"cpu": node.cpus, "memory": node.memory_mb, "gpu": len(node.gpus)})
    return _Cluster(owners, whole, parts.pop(""), parts)


def _view(
    vc: VirtualCluster, used: Mapping[str, int], cluster: _Cluster, quota: Quota, jobs: LiveJobs, is_numbered: bool
) -> VcView:
    """``is_numbered``: what it is guaranteed of the GPUs is no percentage."""
    own, whole = cluster.own.get(vc.name, _NOTHING), cluster.whole
    total = {what: whole_units(amount) for what, amount in quota.guarantee.items()}
    most_gpus = whole_units(min(quota.ceiling.get("gpu", inf), cluster.pool["gpu"] + own["gpu"]))
    gpus = max(whole["gpu"], 1)
    is_plain = cluster.pool["gpu"] == whole["gpu"] and not is_numbered
    return VcView(
        vc,
        used,
        total,
        round(100 * max((used[what] / number for what, number in whole.items() if number), default=0.0), 2),
        guaranteed=vc.capacity if is_plain else round(100 * total["gpu"] / gpus, 2),
        most=vc.max_capacity if is_plain and vc.gpu_ceiling is None else round(100 * most_gpus / gpus, 2),
        most_gpus=most_gpus,
        nodes=tuple(name for name, owner in cluster.owners.items() if owner in ("", vc.name)),
        own=tuple(name for name, owner in cluster.owners.items() if owner == vc.name),
        jobs=jobs,
    )


def store_quotas(username: str, is_admin: bool) -> list[int]:
    """Answers base.core.signals: the quotas of the virtual clusters that the user may use and that have one."""
    quotas = usable_by(username, is_admin=is_admin).values_list("store_quota", flat=True)
    return [quota for quota in quotas if quota is not None]
