"""A cluster in which nothing but the queue is real: jobs come, run for as long as they say, and are evicted at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from clusters.placement.fit import Demand, NodeView, Placement, PortDemand
from clusters.placement.shares import Amount, Hold, Quota, add, named_gpus, of_gpus
from jobs.planning.queue.idling.after import idled_after
from jobs.planning.queue.idling.rule import Idlings
from jobs.planning.queue.lengths import Lengths
from jobs.planning.queue.scene import (
    NO_LENGTHS,
    POLICY,
    Policy,
    Rests,
    Runner,
    Scene,
    SchedulableJob,
    as_evicted,
    as_owner,
    rests_after,
    since_text,
)
from jobs.planning.queue.users.shares import after_run
from jobs.planning.queue.users.used_lately import UsedLately
from jobs.planning.turns import Move, Turn, turns

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played(SchedulableJob):
    """``seconds`` is how long it runs, ``most`` what it says about that."""

    shape: tuple[Demand, ...]
    seconds: int = 60
    most: int | None = None
    preemptible: bool = False

    def __post_init__(self) -> None:
        """A number is a moment of the play, so many microseconds after it began."""
        if self.since.isdigit():
            object.__setattr__(self, "since", since_text(NOW + timedelta(microseconds=int(self.since))))

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.shape

    @property
    def is_preemptible(self) -> bool:
        return self.preemptible

    @property
    def most_seconds(self) -> int | None:
        return self.most


def shape(
    tasks: int = 1, gpus: int = 1, cpus: int = 1, kind: str = "", ports: tuple[PortDemand, ...] = ()
) -> tuple[Demand, ...]:
    return tuple(Demand(f"w-{at}", "w", at, cpus, 100, gpus, kind, ports) for at in range(tasks))


def node(name: str, gpus: str = "AAAA", cpus: int = 8, **values: object) -> NodeView:
    listed = tuple((str(at), kind) for at, kind in enumerate(gpus))
    return NodeView(name, name, cpus, 8000, listed, 30000, 30020, **values)  # type: ignore[arg-type]


@dataclass
class Play:
    nodes: Sequence[NodeView]
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    policy: Policy = POLICY
    now: datetime = NOW
    waiting: list[Played] = field(default_factory=list)
    running: dict[int, tuple[Played, list[Placement]]] = field(default_factory=dict)
    started: dict[int, datetime] = field(default_factory=dict)  # first start
    lengths: Lengths = NO_LENGTHS
    rests: Rests = field(default_factory=dict)
    past: dict[tuple[str, str], UsedLately] = field(default_factory=dict)
    idlings: Idlings = field(default_factory=dict)

    def scene(self) -> Scene[Played]:
        return Scene(
            nodes=self.views(),
            now=self.now,
            quotas=self.quotas,
            use=self.use(),
            running=lambda: [Runner(job, self._held(job)) for job, _ in self.running.values()],
            holds=lambda: [hold for job, _ in self.running.values() for hold in self._held(job)],
            policy=self.policy,
            rests=self.rests,
            idlings=self.idlings,
            lengths=lambda: self.lengths,
            past=lambda: self.past,
            named=named_gpus([job.demands for job in [*self.waiting, *(job for job, _ in self.running.values())]]),
        )

    def turns(self) -> list[Turn[Played]]:
        return list(turns(self.waiting, self.scene()))

    def step(self, seconds: int = 0) -> list[Turn[Played]]:
        """Time passes, what is over ends, and the turns are carried out."""
        self.now += timedelta(seconds=seconds)
        self.end()
        scene, waiting = self.scene(), self.waiting
        made = list(turns(waiting, scene))
        self.idlings = idled_after(waiting, made, scene)
        for turn in made:
            if turn.keeps:
                keeps = replace(turn.job, keeps_turn=True)
                self.waiting = [keeps if one.id == keeps.id else one for one in self.waiting]
            if turn.move is Move.GO:
                self.start(turn.job, turn.placements, is_guest=turn.is_guest)
            for victim in turn.victims:
                self.evict(victim.job, turn.job)
        return made

    def end(self) -> None:
        for job in [job for job, _ in self.running.values() if self.is_over(job)]:
            self.leave(job)

    def leave(self, job: Played) -> Played:
        quota = self.quotas.get(job.vc, Quota())
        after_run(self.past, Runner(job, self._held(job)), self.now, quota.half_life)
        return self.running.pop(job.id)[0]

    def start(self, job: Played, places: Sequence[Placement], *, is_guest: bool = False) -> None:
        self.waiting = [one for one in self.waiting if one.id != job.id]
        self.rests = rests_after(self.rests, job.displaced, job.title, self.now)
        ends = job.would_end(self.now)
        runs = replace(job, started_at=self.now, ends_by=ends, is_guest=is_guest, keeps_turn=False)
        self.running[job.id] = runs, list(places)
        self.started.setdefault(job.id, self.now)

    def evict(self, job: Played, owner: Played | None = None) -> None:
        """``owner`` is the waiting job that gets its room; without one, an admin does it."""
        runner = Runner(*(self.running[job.id][0], self._held(job)))
        self.leave(job)
        if owner is not None:
            self.waiting = [as_owner(one, [runner]) if one.id == owner.id else one for one in self.waiting]
        self.waiting.append(as_evicted(runner.job, counts=owner is not None))

    def views(self) -> list[NodeView]:
        holds: dict[str, list[Hold]] = {}
        for job, _ in self.running.values():
            for hold in self._held(job):
                holds.setdefault(hold.node, []).append(hold)
        return [
            replace(
                one,
                used_cpus=sum(hold.cpus for hold in mine),
                used_memory_mb=sum(hold.memory_mb for hold in mine),
                used_gpus=frozenset(gpu for hold in mine for gpu in hold.gpu_ids),
                used_ports=frozenset(port for hold in mine for port in hold.ports),
            )
            for one in self.nodes
            for mine in [holds.get(one.name, [])]
        ]

    def use(self) -> dict[str, Amount]:
        found: dict[str, dict[str, float]] = {}
        for job, _ in self.running.values():
            add(found.setdefault(job.vc, {}), self.amount(job))
        return dict(found)

    def amount(self, job: Played) -> dict[str, float]:
        types = {one.name: dict(one.gpus) for one in self.nodes}
        found: dict[str, float] = {}
        for hold in self._held(job):
            kinds = of_gpus(types[hold.node][id] for id in hold.gpu_ids)
            add(found, {"cpu": hold.cpus, "memory": hold.memory_mb, **kinds})
        return found

    def _held(self, job: Played) -> tuple[Hold, ...]:
        return tuple(
            Hold(job.vc, place.node, demand.cpus, demand.memory_mb, place.gpu_ids, _ports(place))
            for demand, place in zip(job.shape, self.running[job.id][1], strict=True)
        )

    def is_over(self, job: Played, later: float = 0) -> bool:
        """Whether it has run as long as it runs, or will have in so many seconds."""
        return job.started_at is not None and self.now >= job.started_at + timedelta(seconds=job.seconds - later)


def _ports(place: Placement) -> tuple[int, ...]:
    return tuple(port for ports in place.ports.values() for port in ports)
