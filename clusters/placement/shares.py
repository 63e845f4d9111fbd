"""Says what each virtual cluster has a right to, and what it uses; and how much each type of GPUs is wanted. Pure.

The pool are the registered nodes that are not dedicated to a virtual cluster. Registered, not healthy: a node that is
away makes nobody's right smaller. An amount is a mapping of resources to numbers: "cpu", "memory" (MB), "gpu" (of every
type) and "gpu:T" (of type T).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from clusters.placement.fit import NOT_WANTED, Demand, NodeView, Placement, Wanted

# Seconds from the notice of a job's end to KILL that a virtual cluster allows as long as no admin has said otherwise.
USUAL_GRACE = 30
Amount = Mapping[str, float]
HALF_LIFE = 24  # hours after which what a user used counts half as much, where nobody has said another number
_DIGITS = 4  # percents of a whole are compared: a difference beyond this digit is an error of rounding


class Hold(NamedTuple):
    """What one live task holds on one node."""

    vc: str
    node: str
    cpus: int
    memory_mb: int
    gpu_ids: tuple[str, ...]
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Right:
    """What an admin gave to one virtual cluster. Percents are of the pool; numbers of GPUs, where given, hold instead
    of the percents of GPUs."""

    capacity: float = 0.0
    max_capacity: float = 100.0
    gpu_guarantee: int | None = None
    gpu_ceiling: int | None = None
    user_gpus: int | None = None  # what one of its users may hold at once; None: no limit
    user_jobs: int | None = None
    share_half_life: int = HALF_LIFE  # hours; 0: of what its users used lately nothing counts
    grace: int = USUAL_GRACE  # seconds that its jobs may ask for, between the notice of their end and KILL
    min_run: int = 0  # minutes that its borrowers run before they leave for an owner
    stopped: bool = False
    has_rest: bool = False  # it is guaranteed what the others are not


@dataclass(frozen=True, slots=True)
class Quota:
    """A right in amounts. A resource that the ceiling does not name has none."""

    guarantee: Amount = field(default_factory=dict)
    ceiling: Amount = field(default_factory=dict)
    user_gpus: int | None = None
    user_jobs: int | None = None
    stopped: bool = False
    half_life: int = HALF_LIFE
    grace: int = USUAL_GRACE
    min_run: int = 0


def quotas(rights: Mapping[str, Right], pool: Amount, dedicated: Mapping[str, Amount]) -> dict[str, Quota]:
    """The quota of each virtual cluster, where the pool has ``pool`` and its own nodes have ``dedicated``."""
    parts = {name: _part(pool, right.capacity, right.gpu_guarantee) for name, right in rights.items()}
    guaranteed: dict[str, float] = {}
    for name, part in parts.items():
        if not rights[name].has_rest:
            add(guaranteed, part)
    rest = {what: max(0.0, round(whole - guaranteed.get(what, 0), _DIGITS)) for what, whole in pool.items()}
    return {
        name: _quota(right, rest if right.has_rest else parts[name], pool, dedicated.get(name, {}))
        for name, right in rights.items()
    }


def _quota(right: Right, part: Amount, pool: Amount, own: Amount) -> Quota:
    unlimited = right.max_capacity >= 100 and right.gpu_ceiling is None
    ceiling = {} if unlimited else plus(_part(pool, right.max_capacity, right.gpu_ceiling), own)
    users = right.user_gpus, right.user_jobs
    return Quota(plus(part, own), ceiling, *users, right.stopped, right.share_half_life, right.grace, right.min_run)


def _part(pool: Amount, percent: float, gpus: int | None) -> Amount:
    if gpus is None:
        return {what: round(whole * percent / 100, _DIGITS) for what, whole in pool.items()}
    part = {what: round(pool.get(what, 0) * percent / 100, _DIGITS) for what in ("cpu", "memory")}
    return {**part, "gpu": float(gpus)}


def pool_totals(nodes: Iterable[NodeView]) -> tuple[Amount, dict[str, Amount]]:
    """What the pool has, and what the nodes dedicated to each virtual cluster have."""
    amounts: dict[str, dict[str, float]] = {"": {}}
    for node in nodes:
        mine = amounts.setdefault(node.dedicated_to, {})
        add(mine, {"cpu": node.cpus, "memory": node.memory_mb, **of_gpus(kind for _, kind in node.gpus)})
    pool = amounts.pop("")
    return pool, dict(amounts)


def asked(demands: Sequence[Demand]) -> Amount:
    """What a job takes at least, wherever it is placed."""
    amount: dict[str, float] = {
        "cpu": sum(demand.cpus for demand in demands),
        "memory": sum(demand.memory_mb for demand in demands),
    }
    for demand in demands:
        if demand.gpus:
            add(amount, of_gpus((demand.gpu_type,)), demand.gpus)
    return amount


def taken(
    demands: Sequence[Demand], placements: Sequence[Placement], gpu_types: Mapping[str, Mapping[str, str]]
) -> dict[str, float]:
    """What a placed job takes. ``gpu_types`` are those of each node's GPUs, by id."""
    amount: dict[str, float] = {}
    for demand, place in zip(demands, placements, strict=True):
        kinds = of_gpus(gpu_types[place.node].get(id, "") for id in place.gpu_ids)
        add(amount, {"cpu": demand.cpus, "memory": demand.memory_mb, **kinds})
    return amount


def of_gpus(types: Iterable[str]) -> dict[str, float]:
    amount: dict[str, float] = {}
    for kind in types:
        amount["gpu"] = amount.get("gpu", 0) + 1
        if kind:
            amount[f"gpu:{kind}"] = amount.get(f"gpu:{kind}", 0) + 1
    return amount


def share(use: Amount, quota: Quota) -> float:
    """The dominant share: the largest part of its guarantee that it uses of any resource. Infinite where it uses what
    it has no right to."""
    return max(
        (_ratio(used, quota.guarantee.get(what, 0)) for what, used in use.items() if _counts(what, quota)), default=0.0
    )


def _counts(what: str, quota: Quota) -> bool:
    """GPUs given as a number are of any type, so their types do not count."""
    return what in quota.guarantee or not what.startswith("gpu:")


def _ratio(used: float, guaranteed: float) -> float:
    if used <= 0:
        return 0.0
    return used / guaranteed if guaranteed else inf


def is_within(use: Amount, more: Amount, quota: Quota) -> bool:
    """Whether the use with ``more`` stays at or below the guarantee, in every resource that ``more`` has some of."""
    return not exceeded(use, more, quota.guarantee, named_only=False)


def rank(use: Amount, more: Amount, quota: Quota) -> tuple[bool, float]:
    """Sorts virtual clusters with this use by whose turn it is, where the next job of each takes ``more``: those within
    their guarantee first, then by share."""
    return not is_within(use, more, quota), share(use, quota)


def above_ceiling(use: Amount, more: Amount, quota: Quota) -> list[str]:
    """The resources in which the use with ``more`` would be above the ceiling."""
    return exceeded(use, more, quota.ceiling) if quota.ceiling else []


def exceeded(use: Amount, more: Amount, limit: Amount, *, named_only: bool = True) -> list[str]:
    """The resources of ``more`` in which both together exceed the limit. One that the limit does not name is unlimited,
    or, without ``named_only``, has the limit 0; then types of GPUs count only where it names any."""
    exceeded = []
    for what, wanted in more.items():
        if wanted <= 0 or (what not in limit and (named_only or what.startswith("gpu:"))):
            continue
        if round(use.get(what, 0) + wanted - limit.get(what, 0), _DIGITS) > 0:
            exceeded.append(what)
    return exceeded


def plus(one: Amount, other: Amount) -> dict[str, float]:
    sums = dict(one)
    add(sums, other)
    return sums


def add(to: dict[str, float], more: Amount, times: int = 1) -> None:
    for what, number in more.items():
        to[what] = to.get(what, 0) + times * number


def nodes_without(nodes: Iterable[NodeView], holds: Iterable[Hold]) -> list[NodeView]:
    """The nodes as if these holds were given back."""
    by_node: dict[str, list[Hold]] = {}
    for hold in holds:
        by_node.setdefault(hold.node, []).append(hold)
    return [_without(node, by_node[node.name]) if node.name in by_node else node for node in nodes]


def _without(node: NodeView, holds: Sequence[Hold]) -> NodeView:
    return replace(
        node,
        used_cpus=node.used_cpus - sum(hold.cpus for hold in holds),
        used_memory_mb=node.used_memory_mb - sum(hold.memory_mb for hold in holds),
        used_gpus=node.used_gpus.difference(*(hold.gpu_ids for hold in holds)),
        used_ports=node.used_ports.difference(*(hold.ports for hold in holds)),
    )


# --- types of GPUs -----------------------------------------------------------------------------------------------


def wanted(nodes: Iterable[NodeView], named: Mapping[str, int]) -> Wanted:
    """Return the GPUs of each type that queued and running jobs ask for by its name (``named``) as a part of those that
    the nodes have. Empty where it makes no difference, for want of a second type."""
    there = Counter(kind for node in nodes for _, kind in node.gpus) if named else Counter[str]()
    return {kind: named[kind] / there[kind] for kind in there if named.get(kind)} if len(there) > 1 else NOT_WANTED


def named_gpus(shapes: Collection[Sequence[Demand]]) -> Counter[str]:
    """Add up by type the GPUs that jobs of these shapes ask for by its name. Each shape is looked into once."""
    times, known = Counter(map(id, shapes)), {id(shape): shape for shape in shapes}
    named = Counter[str]()
    for key, shape in known.items():
        for demand in shape:
            if demand.gpu_type:
                named[demand.gpu_type] += demand.gpus * times[key]
    return named
