"""Shows, node by node, what one task needs and what is there. Pure; the checks are those of clusters.placement.fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from base.core import words
from clusters.placement.blockers import could, shapes_of, size, written
from clusters.placement.fit import Demand, FreeNode, NodeView, bars


@dataclass(frozen=True, slots=True)
class GridCell:
    """What is needed and what is there, as text; ``short`` says how much is missing, and is empty where nothing is."""

    need: str
    have: str
    short: str = ""

    @property
    def ok(self) -> bool:
        return not self.short


@dataclass(frozen=True, slots=True)
class GridRow:
    """One node for one task of the role. What a node has free is counted also where it is not offered."""

    node: str
    role: str
    gpus: GridCell
    cpu: GridCell
    memory: GridCell
    ports: GridCell
    labels: GridCell
    state: GridCell

    @property
    def missing(self) -> list[str]:
        cells = (self.state, self.labels, self.gpus, self.cpu, self.memory, self.ports)
        return [cell.short for cell in cells if cell.short]


def grid(nodes: Sequence[NodeView], demands: Sequence[Demand], vc: str = "") -> list[GridRow]:
    """One row for each node and role of a job in this virtual cluster, the nodes that lack least first. A row that
    lacks nothing has room for one task, not for the whole gang."""
    shapes = shapes_of(demands)
    rows = [(_distance(node, shape, vc), _row(node, shape, vc)) for shape in shapes for node in nodes]
    return [row for _, row in sorted(rows, key=lambda one: (one[1].role, one[0], one[1].node))]


def _distance(node: NodeView, shape: Demand, vc: str) -> tuple[bool, bool, int, int, int]:
    """How far a node is from what the task needs: whether it ever could, then how many GPUs and cores it is short."""
    free = FreeNode(node)
    never = not (node.serves(vc) and could(node, shape))
    gpus = max(0, shape.gpus - free.free_gpus(shape.gpu_type))
    return never, not node.offered, gpus, max(0, shape.cpus - free.cpus), free.cpus


def _row(node: NodeView, shape: Demand, vc: str) -> GridRow:
    free = FreeNode(node)
    return GridRow(
        node=node.name,
        role=shape.role,
        gpus=_gpus(free, shape),
        cpu=_amount(shape.cpus, free.cpus, lambda lacks: words.count(lacks, "core")),
        memory=_amount(shape.memory_mb, free.memory_mb, lambda lacks: f"{size(lacks)} of memory", size),
        ports=_ports(free, shape),
        labels=_labels(node, shape),
        state=_state(node, shape, vc),
    )


def _gpus(free: FreeNode, shape: Demand) -> GridCell:
    kind = f" {words.visible(shape.gpu_type)}" if shape.gpu_type else ""
    has = {type for _, type in free.node.gpus}
    if shape.gpus and shape.gpu_type and shape.gpu_type not in has:
        others = ", ".join(sorted(has)) or "none"
        return GridCell(f"{shape.gpus}{kind}", others, f"GPUs of type{kind}")
    return _amount(shape.gpus, free.free_gpus(shape.gpu_type), lambda lacks: words.count(lacks, f"{kind} GPU".strip()))


def _amount(need: int, have: int, short: Callable[[int], str], show: Callable[[int], str] = str) -> GridCell:
    """``short`` says how much is missing."""
    have = max(0, have)
    return GridCell(show(need), show(have), short(need - have) if need > have else "")


def _ports(free: FreeNode, shape: Demand) -> GridCell:
    need = sum(port.number for port in shape.ports)
    ok = free.has_ports(shape.ports)
    fixed = any(port.begin_at for port in shape.ports)
    return GridCell(
        str(need), str(max(0, free.free_port_count())), "" if ok else "the ports asked for" if fixed else "ports"
    )


def _labels(node: NodeView, shape: Demand) -> GridCell:
    lacking = [f"label {written(shape.labels - node.labels)}"] if shape.labels - node.labels else []
    if not shape.topology.takes(node.labels):
        lacking.append(f"label topology of {words.count(shape.topology.level, 'part')}")
    return GridCell(written(shape.labels), written(node.labels), ", ".join(lacking))


def _state(node: NodeView, shape: Demand, vc: str) -> GridCell:
    if not node.serves(vc):
        return GridCell("active", f"only for {node.dedicated_to}", f"it is only for VC {node.dedicated_to}")
    if not node.offered:
        return GridCell("active", node.why_not, node.why_not or "not offered")
    mark = bars(node, shape)
    return GridCell("active", mark.kind if mark else "active", mark.sentence if mark else "")
