"""Shows, node by node, what one task needs and what is there. Pure; the checks are those of clusters.placement.fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clusters.placement.blockers import could, shapes_of, size, written
from clusters.placement.fit import Demand, Free, NodeView, bars


@dataclass(frozen=True, slots=True)
class Cell:
    """What is needed and what is there, as text; ``short`` says how much is missing, and is empty where nothing is."""

    need: str
    have: str
    short: str = ""

    @property
    def ok(self) -> bool:
        return not self.short


@dataclass(frozen=True, slots=True)
class Row:
    """One node for one task of the role. What a node has free is counted also where it is not offered."""

    node: str
    role: str
    gpus: Cell
    cpu: Cell
    memory: Cell
    ports: Cell
    labels: Cell
    state: Cell

    @property
    def missing(self) -> list[str]:
        cells = (self.state, self.labels, self.gpus, self.cpu, self.memory, self.ports)
        return [cell.short for cell in cells if cell.short]


def grid(nodes: Sequence[NodeView], demands: Sequence[Demand], vc: str = "") -> list[Row]:
    """One row for each node and role of a job in this virtual cluster, the nodes that lack least first. A row that
    lacks nothing has room for one task, not for the whole gang."""
    rows = [(_Far(node, shape, vc), row) for shape in shapes_of(demands) for node, row in _rows(nodes, shape, vc)]
    return [row for far, row in sorted(rows, key=lambda one: (one[1].role, one[0].key, one[1].node))]


class _Far:
    """How far a node is from what the task needs: whether it ever could, then how many GPUs and cores it is short."""

    def __init__(self, node: NodeView, shape: Demand, vc: str) -> None:
        free = Free(node)
        never = not (node.serves(vc) and could(node, shape))
        gpus = max(0, shape.gpus - free.free_gpus(shape.gpu_type))
        self.key = (never, not node.offered, gpus, max(0, shape.cpus - free.cpus), free.cpus)


def _rows(nodes: Sequence[NodeView], shape: Demand, vc: str) -> Iterator[tuple[NodeView, Row]]:
    for node in nodes:
        free = Free(node)
        yield (
            node,
            Row(
                node=node.name,
                role=shape.role,
                gpus=_gpus(free, shape),
                cpu=_number(shape.cpus, free.cpus, "core"),
                memory=_memory(shape.memory_mb, free.memory_mb),
                ports=_ports(free, shape),
                labels=_labels(node, shape),
                state=_state(node, shape, vc),
            ),
        )


def _gpus(free: Free, shape: Demand) -> Cell:
    kind = f" {shape.gpu_type}" if shape.gpu_type else ""
    has = {type for _, type in free.node.gpus}
    if shape.gpus and shape.gpu_type and shape.gpu_type not in has:
        others = ", ".join(sorted(has)) or "none"
        return Cell(f"{shape.gpus}{kind}", others, f"GPUs of type {shape.gpu_type}")
    return _number(shape.gpus, free.free_gpus(shape.gpu_type), f"{kind} GPU".strip())


def _number(need: int, have: int, unit: str) -> Cell:
    have = max(0, have)
    lacks = need - have
    return Cell(str(need), str(have), f"{lacks} {unit}{'s' * (lacks > 1)}" if lacks > 0 else "")


def _memory(need: int, have: int) -> Cell:
    have = max(0, have)
    return Cell(size(need), size(have), f"{size(need - have)} of memory" if need > have else "")


def _ports(free: Free, shape: Demand) -> Cell:
    need = sum(port.number for port in shape.ports)
    ok = free.has_ports(shape.ports)
    fixed = any(port.begin_at for port in shape.ports)
    return Cell(
        str(need), str(max(0, free.free_port_count())), "" if ok else "the ports asked for" if fixed else "ports"
    )


def _labels(node: NodeView, shape: Demand) -> Cell:
    lacking = written(shape.labels - node.labels)
    return Cell(written(shape.labels), written(node.labels), f"label {lacking}" if lacking else "")


def _state(node: NodeView, shape: Demand, vc: str) -> Cell:
    if not node.serves(vc):
        return Cell("active", f"only for {node.dedicated_to}", f"it is only for VC {node.dedicated_to}")
    if not node.offered:
        return Cell("active", node.why_not, node.why_not or "not offered")
    mark = bars(node, shape)
    return Cell("active", mark.kind if mark else "active", mark.sentence if mark else "")
