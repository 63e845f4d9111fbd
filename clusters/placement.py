"""Which task goes where. Pure: values in, decisions out; the same input gives the same answer.

``place`` puts a whole gang on nodes or nobody; ``blockers`` says everything that keeps a gang from starting;
``never_fits`` says whether any set of idle nodes could hold it. One set of small checks serves all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


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
    offered: bool = True
    why_not: str = ""  # "unreachable since 14:21" | "cordoned"
    used_cpus: int = 0
    used_memory_mb: int = 0
    used_gpus: frozenset[str] = frozenset()
    used_ports: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
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
    fits somewhere but not all at once), queue, vc_stopped, delay, never."""

    kind: str
    sentence: str
    need: str = ""
    have: str = ""
    node: str = ""
    until: str = ""


def place(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> list[Place] | None:
    raise NotImplementedError


def blockers(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> list[Blocker]:
    raise NotImplementedError


def never_fits(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> Blocker | None:
    raise NotImplementedError
