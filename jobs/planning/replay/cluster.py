"""What runs on which node while a day is played, and what waits. Pure. Times are seconds since the day began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.shares import Hold, Quota, add, freed, taken
from jobs.planning.queue.scene import Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Waiting):
    """A job of the day: since when it waited, what it asked for, and how long it ran. Runs of one shape share the same
    object. ``limit`` is how long it said that it runs at most."""

    shape: tuple[Demand, ...]
    submitted: float
    seconds: float
    preemptible: bool = False
    limit: int | None = None

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.shape

    @property
    def is_preemptible(self) -> bool:
        return self.preemptible

    @property
    def most_seconds(self) -> int | None:
        return self.limit

    @property
    def gpus(self) -> int:
        return sum(demand.gpus for demand in self.shape)

    @property
    def cpus(self) -> int:
        return sum(demand.cpus for demand in self.shape)


class Part(NamedTuple):
    """A task of a run that is placed."""

    id: int


@dataclass(slots=True)
class Placed:
    """A run on its nodes. ``as_it_runs`` is what the queue sees of it."""

    run: Run
    as_it_runs: Run
    parts: Sequence[Part]
    places: Sequence[Placement]
    began: float
    ends: float
    is_evicted: bool = False  # it is about to leave


class Start(NamedTuple):
    """``places`` may leave open which GPUs: then any free ones of the node are taken."""

    run: Run
    places: Sequence[Placement]
    is_guest: bool = False


@dataclass
class Cluster:
    """``midnight`` is the moment at which the day began."""

    views: dict[str, NodeView]
    quotas: Mapping[str, Quota]
    midnight: datetime
    now: float = 0.0
    waiting: dict[int, Run] = field(default_factory=dict)
    running: dict[int, Placed] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    use: dict[str, dict[str, float]] = field(default_factory=dict)
    _parts: int = 0

    @classmethod
    def of(cls, nodes: Iterable[NodeView], quotas: Mapping[str, Quota], midnight: datetime) -> Cluster:
        return cls({node.name: node for node in nodes}, quotas, midnight)

    @property
    def nodes(self) -> list[NodeView]:
        return list(self.views.values())

    @cached_property
    def types(self) -> Mapping[str, Mapping[str, str]]:
        return {node.name: dict(node.gpus) for node in self.views.values()}

    def at(self, seconds: float) -> datetime:
        return self.midnight + timedelta(seconds=seconds)

    def in_order(self) -> list[Run]:
        """Those that wait, first the one that has waited for longest."""
        return sorted(self.waiting.values(), key=lambda run: (run.submitted, run.id))

    def start(self, start: Start, ends: float) -> Placed | None:
        """None, and nothing changes, where a node has no such room."""
        run = start.run
        places = self._found(run.shape, start.places)
        if places is None or len(places) != len(run.shape):
            return None
        began = self.at(self.now)
        runs = replace(run, is_guest=start.is_guest, started_at=began, ends_by=run.would_end(began))
        parts = [Part(self._parts + at) for at in range(len(places))]
        self._parts += len(places)
        for part, demand, place in zip(parts, run.shape, places, strict=True):
            hold = Hold(run.vc, place.node, demand.cpus, demand.memory_mb, place.gpu_ids, ())
            self.holds[str(part.id)] = hold
            self._take(hold)
        add(self.use.setdefault(run.vc, {}), taken(run.shape, places, self.types))
        self.waiting.pop(run.id, None)
        placed = Placed(run, runs, parts, places, self.now, ends)
        self.running[run.id] = placed
        return placed

    def leave(self, id: int) -> Placed:
        placed = self.running.pop(id)
        add(self.use[placed.run.vc], taken(placed.run.shape, placed.places, self.types), -1)
        for part in placed.parts:
            hold = self.holds.pop(str(part.id))
            [self.views[hold.node]] = freed([self.views[hold.node]], [hold])
        return placed

    def _take(self, hold: Hold) -> None:
        node = self.views[hold.node]
        self.views[hold.node] = replace(
            node,
            used_cpus=node.used_cpus + hold.cpus,
            used_memory_mb=node.used_memory_mb + hold.memory_mb,
            used_gpus=node.used_gpus.union(hold.gpu_ids),
        )

    def _found(self, shape: Sequence[Demand], places: Sequence[Placement]) -> list[Placement] | None:
        """The places with GPUs that are free; None where there are too few."""
        found: list[Placement] = []
        left: dict[str, tuple[int, int, list[tuple[str, str]]]] = {}
        for demand, place in zip(shape, places, strict=True):
            node = self.views.get(place.node)
            if node is None:
                return None
            if place.node not in left:
                free = [gpu for gpu in node.gpus if gpu[0] not in node.used_gpus]
                left[place.node] = node.cpus - node.used_cpus, node.memory_mb - node.used_memory_mb, free
            cpus, memory_mb, free = left[place.node]
            wanted = place.gpu_ids or [id for id, kind in free if demand.gpu_type in ("", kind)][: demand.gpus]
            kept = [gpu for gpu in free if gpu[0] not in wanted]
            if len(wanted) != demand.gpus or len(free) - len(kept) != demand.gpus:
                return None
            left[place.node] = cpus - demand.cpus, memory_mb - demand.memory_mb, kept
            if min(left[place.node][:2]) < 0:
                return None
            found.append(replace(place, gpu_ids=tuple(wanted)))
        return found
