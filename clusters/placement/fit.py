"""Nodes, what tasks ask of them, and whether one fits on the other. Pure: the same input gives the same answer.

``clusters.placement.free`` places whole gangs with these checks; ``clusters.placement.blockers`` says with the same
ones why a gang does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from types import MappingProxyType

from clusters.engines.image_names import registry_of
from clusters.placement import ports
from clusters.placement.topology import NEAREST, Labels, Topology

Wanted = Mapping[str, float]  # by type of GPUs, how much those who name it want it; one that is not there, not at all
NOT_WANTED: Wanted = MappingProxyType({})
OWN_LABEL = "longshore/node"  # every node has it by itself, with its name as the value: a job can ask for one node


@dataclass(frozen=True, slots=True)
class PortDemand:
    label: str
    begin_at: int  # 0: any free ports of the node's range
    number: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What one task needs on one node."""

    task: str  # "worker-1", for sentences
    role: str
    index: int
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str  # "" = any
    ports: tuple[PortDemand, ...] = ()
    image: str = ""  # as image_names.canonical writes it
    labels: Labels = frozenset()  # that its node must have; the same for all tasks of a job
    topology: Topology = NEAREST  # the same for all tasks of a job

    def admits(self, node: NodeView) -> bool:
        """Whether the node has the labels that it must have."""
        return self.labels <= node.labels and self.topology.takes(node.labels)


MARK_LASTS = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a node failed to do. Tasks that need it are not placed there until the mark is lifted or lapses."""

    # gpus: hand out GPUs · gpu: hand out the one with the id ``what`` · pull: get images from the registry ``what`` ·
    # start: start any · portal: reach it
    kind: str
    sentence: str
    what: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node: what it has, what is taken (allocations and what quarantine holds), and whether it is offered."""

    name: str
    address: str
    cpus: int
    memory_mb: int
    gpus: tuple[tuple[str, str], ...]  # (id, type)
    port_from: int
    port_to: int
    network: str = "host"
    fixed_ports: tuple[tuple[int, int], ...] = ()  # beside that range: what a config may ask for by number
    offered: bool = True
    why_not: str = ""  # "unreachable since 14:21" | "cordoned"
    dedicated_to: str = ""  # the only virtual cluster that it serves; without one it is of the pool
    draining: bool = False  # an admin wants it empty: what runs there is evicted
    gone: bool = False  # it does not answer, and an admin says that it never will
    used_cpus: int = 0
    used_memory_mb: int = 0
    used_gpus: frozenset[str] = frozenset()
    used_ports: frozenset[int] = frozenset()
    quarantined: tuple[frozenset[str], frozenset[int]] = (frozenset(), frozenset())  # as last written down
    images: frozenset[str] = frozenset()  # that it has, in canonical names
    marks: tuple[Mark, ...] = ()
    refused_ports: tuple[tuple[int, datetime], ...] = ()  # something else listens on them; given out again at that time
    labels: Labels = frozenset()
    free_gpus: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        taken = self.used_gpus
        if self.marks:
            taken = taken.union(mark.what for mark in self.marks if mark.kind == "gpu")
        free = tuple(gpu for gpu in self.gpus if gpu[0] not in taken) if taken else self.gpus
        object.__setattr__(self, "free_gpus", free)  # once for the many who ask

    def serves(self, vc: str) -> bool:
        return self.dedicated_to in ("", vc)

    def gives(self, port: PortDemand) -> bool:
        """Whether a config may ask for exactly these ports here."""
        ranges = ((self.port_from, self.port_to), *self.fixed_ports)
        return all(any(first <= number <= last for first, last in ranges) for number in ports_of(port))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one task goes. ``ports`` by label."""

    role: str
    index: int
    node: str
    address: str
    gpu_ids: tuple[str, ...]
    ports: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason why a gang does not start. kinds: gpus, cpu, memory, ports, nodes (none offered), gang (each task
    fits somewhere but not all at once), topology (not
    all of it close enough together), labels (of nodes), marked (the node refused the like of it), dedicated (a node
    with room serves another virtual cluster), appointment (it would run into one), reserved (the room is kept for
    another job), evicting (what holds its room is being evicted), spared (that will be, once it has
    run for the minimum of its virtual cluster), owners (others, within their guarantees, hold what
    one beyond its own needs), ceiling (of its virtual cluster), cap (of its user
    there), queue, vc_stopped, failed (an earlier attempt), delay, parked, dependency (another job must end first),
    restored (the installation that was backed up may still run), pass (the next one looks at it), never."""

    kind: str
    sentence: str
    need: str = ""
    have: str = ""
    node: str = ""
    until: str = ""
    job: str = ""  # user~job
    owners: tuple[str, ...] = ()  # of the jobs of which the sentence says more than that they are there
    otherwise: str = ""  # the sentence without those


Likeness = tuple[int, int, int, tuple[str, ...], str]


class FreeNode:
    """What is free on one node, changed as tasks are put there."""

    __slots__ = ("_likeness", "_taken", "cpus", "gpus", "memory_mb", "node")

    def __init__(self, node: NodeView, *, empty: bool = False) -> None:
        """``empty``: as if nothing ran on the node."""
        self.node = node
        self._likeness: Likeness | None = None
        self._taken: int | None = None  # ports; worked out when the first task asks for some
        if empty:
            self.cpus, self.memory_mb, self.gpus, self._taken = node.cpus, node.memory_mb, node.gpus, 0
            return
        self.cpus = node.cpus - node.used_cpus
        self.memory_mb = node.memory_mb - node.used_memory_mb
        self.gpus = node.free_gpus

    def copy(self) -> FreeNode:
        """Return as much free on the same node, changed apart from this one."""
        free = FreeNode.__new__(FreeNode)
        free.node, free.cpus, free.memory_mb = self.node, self.cpus, self.memory_mb
        free.gpus, free._taken, free._likeness = self.gpus, self._taken, None
        return free

    @property
    def taken(self) -> int:
        """The taken ports, a bit for each."""
        if self._taken is None:
            refused = [port for port, _ in self.node.refused_ports]
            self._taken = ports.bits(self.node.used_ports) | ports.bits(refused)
        return self._taken

    def free_gpus(self, gpu_type: str) -> int:
        return len(self.gpus) if not gpu_type else sum(kind == gpu_type for _, kind in self.gpus)

    def fits(self, demand: Demand) -> bool:
        return demand.admits(self.node) and self.has_room(demand) and self.has_ports(demand.ports)

    def has_room(self, demand: Demand) -> bool:
        return (
            demand.cpus <= self.cpus
            and demand.memory_mb <= self.memory_mb
            and (not demand.gpus or demand.gpus <= self.free_gpus(demand.gpu_type))
        )

    def likeness(self) -> Likeness:
        """Nodes with the same likeness are equally good, but for ports. It is kept: this is not changed afterwards."""
        if self._likeness is None:
            kinds = tuple([kind for _, kind in self.gpus])
            self._likeness = len(kinds), self.cpus, self.memory_mb, kinds, self.node.dedicated_to
        return self._likeness

    def has_ports(self, wanted: Sequence[PortDemand]) -> bool:
        if not wanted:
            return True
        taken = self.taken
        for port in wanted:
            if port.begin_at:
                mine = ports.span(port.begin_at, port.number)
                if taken & mine or not self.node.gives(port):
                    return False
                taken |= mine
        return ports.count(taken, *self._range) >= sum(port.number for port in wanted if not port.begin_at)

    @property
    def _range(self) -> tuple[int, int]:
        return self.node.port_from, self.node.port_to

    def free_port_count(self) -> int:
        return ports.count(self.taken, *self._range)

    def times(self, demand: Demand, gpus: int) -> int:
        """How many tasks like this one, of which one fits, fit at once with so many GPUs."""
        most = copies(demand, self.cpus, self.memory_mb, gpus)
        number = sum(port.number for port in demand.ports)
        return max(1, min(most, self.free_port_count() // number) if number else most)

    def put(self, demand: Demand, salt: int, wanted: Wanted = NOT_WANTED) -> Placement:
        """Give the task its GPUs and ports; of the GPUs those of less ``wanted`` types first."""
        kind = demand.gpu_type
        mine = sorted((gpu for gpu in self.gpus if kind in ("", gpu[1])), key=_gpu_order) if demand.gpus else []
        if wanted:
            mine.sort(key=lambda gpu: wanted.get(gpu[1], 0.0))
        chosen = mine[: demand.gpus]
        place = Placement(
            role=demand.role,
            index=demand.index,
            node=self.node.name,
            address=self.node.address,
            gpu_ids=tuple(id for id, _ in chosen),
            ports=self._take_ports(demand.ports, salt) if demand.ports else {},
        )
        self.cpus -= demand.cpus
        self.memory_mb -= demand.memory_mb
        if chosen:
            self.gpus = tuple(gpu for gpu in self.gpus if gpu not in chosen)
        return place

    def take(self, demand: Demand, place: Placement) -> None:
        """Take exactly this place, which was given out by another picture of the node."""
        self.cpus -= demand.cpus
        self.memory_mb -= demand.memory_mb
        if place.gpu_ids:
            self.gpus = tuple(gpu for gpu in self.gpus if gpu[0] not in place.gpu_ids)
        if place.ports:
            self._taken = self.taken | ports.bits(_all(place.ports))

    def set_aside(self, demand: Demand, wanted: Wanted = NOT_WANTED) -> None:
        """Keep as much of what this task needs as is free, for the day on which the rest is free too."""
        self.put(demand, 0, wanted)

    def take_back(self, demand: Demand, place: Placement) -> None:
        self.cpus += demand.cpus
        self.memory_mb += demand.memory_mb
        if place.gpu_ids:
            back = {gpu[0] for gpu in self.gpus} | set(place.gpu_ids)
            self.gpus = tuple(gpu for gpu in self.node.gpus if gpu[0] in back)
        if place.ports:
            self._taken = self.taken & ~ports.bits(_all(place.ports))

    def _take_ports(self, demands: Iterable[PortDemand], salt: int) -> dict[str, list[int]]:
        """Take fixed ports first, so that no free choice takes them. Free ones are looked for from a place of the
        attempt's own: the next job does not get a port that the last one has just given back."""
        by_label = {demand.label: list(ports_of(demand)) for demand in demands if demand.begin_at}
        if by_label:
            self._taken = self.taken | ports.bits(_all(by_label))
        rest = [demand for demand in demands if not demand.begin_at]
        free = ports.choose(self.taken, *self._range, salt * 7919, sum(demand.number for demand in rest))
        self._taken = self.taken | ports.bits(free)
        left = iter(free)
        return by_label | {demand.label: list(islice(left, demand.number)) for demand in rest}


def bars(node: NodeView, demand: Demand) -> Mark | None:
    """The mark that keeps the task off the node."""
    return next((mark for mark in node.marks if _concerns(mark, node, demand)), None)


def gpus_out(node: NodeView) -> frozenset[str]:
    """The GPUs that nobody gets, whoever asks and whether or not the node is offered: those in quarantine, and those
    that a mark keeps from being handed out. A task that has one already may go on using it."""
    if any(mark.kind in ("gpus", "start") for mark in node.marks):
        return frozenset(id for id, _ in node.gpus)
    return node.quarantined[0].union(mark.what for mark in node.marks if mark.kind == "gpu")


def gpus_to_give(node: NodeView) -> frozenset[str]:
    """The GPUs that a task could get now. Whatever calls a GPU free means these: pages, the API, metrics."""
    return frozenset(id for id, _ in node.free_gpus) - gpus_out(node) if node.offered else frozenset()


def in_force(nodes: Iterable[NodeView], now: datetime) -> list[NodeView]:
    """The nodes without the marks and the refusals of ports that have lapsed."""
    return [
        replace(
            node,
            marks=tuple(mark for mark in node.marks if counts(mark, now)),
            refused_ports=tuple(each for each in node.refused_ports if _lasts(each[1], now)),
        )
        if node.marks or node.refused_ports
        else node
        for node in nodes
    ]


def counts(mark: Mark, now: datetime) -> bool:
    """Whether the mark is in force."""
    return mark.until is None or _lasts(mark.until, now)


def _lasts(until: datetime, now: datetime) -> bool:
    """Whether that is still to come. If the clock was set back, it is no more than MARK_LASTS away all the same."""
    return now < until <= now + MARK_LASTS


def _concerns(mark: Mark, node: NodeView, demand: Demand) -> bool:
    match mark.kind:
        case "gpus":
            return demand.gpus > 0
        case "pull":
            return demand.image not in node.images and registry_of(demand.image) == mark.what
        case _:
            return mark.kind == "start"


def idle(node: NodeView) -> NodeView:
    """The node as if nothing ran on it, it were offered, and it had no marks."""
    return replace(
        node,
        offered=True,
        marks=(),
        refused_ports=(),
        used_cpus=0,
        used_memory_mb=0,
        used_gpus=frozenset(),
        used_ports=frozenset(),
    )


def with_tasks(node: NodeView, tasks: Sequence[tuple[Demand, Placement]]) -> NodeView:
    """The node with these tasks on it as well."""
    return replace(
        node,
        used_cpus=node.used_cpus + sum(demand.cpus for demand, _ in tasks),
        used_memory_mb=node.used_memory_mb + sum(demand.memory_mb for demand, _ in tasks),
        used_gpus=node.used_gpus.union(*(place.gpu_ids for _, place in tasks)),
        used_ports=node.used_ports.union(*(_all(place.ports) for _, place in tasks)),
    )


def copies(shape: Demand, cpus: int, memory_mb: int, gpus: int) -> int:
    """How many tasks of this shape fit into so much room; 1 at most where a fixed port is asked for."""
    if any(port.begin_at for port in shape.ports):
        return 1
    most = min(
        cpus // shape.cpus if shape.cpus else 50_000, memory_mb // shape.memory_mb if shape.memory_mb else 50_000
    )
    return min(most, gpus // shape.gpus) if shape.gpus else most


asked_of_node = attrgetter("gpus", "cpus", "memory_mb", "gpu_type", "ports", "image", "labels")


def _all(ports_by_label: Mapping[str, Sequence[int]]) -> list[int]:
    return list(chain.from_iterable(ports_by_label.values()))


def ports_of(port: PortDemand) -> range:
    return range(port.begin_at, port.begin_at + port.number)


@lru_cache(maxsize=10_000)
def _gpu_order(gpu: tuple[str, str]) -> tuple[str, int, str]:
    id, kind = gpu
    return kind, int(id) if id.isdigit() else 1_000_000, id
