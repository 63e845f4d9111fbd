"""Gives every reason why a gang does not start. Pure; the checks are those of clusters.placement.fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from base.core import words
from clusters.placement.fit import (
    Blocker,
    Demand,
    FreeNode,
    Mark,
    NodeView,
    Placement,
    PortDemand,
    asked_of_node,
    bars,
    copies,
    idle,
    ports_of,
)
from clusters.placement.free import FreeNodes
from clusters.placement.topology import NEAREST, Labels, Topology, path_of

MOST = 20  # reasons about single tasks that are given


def blockers(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> list[Blocker]:
    """All that is short for this gang on the nodes as they are now; empty when it would be placed."""
    if not any(node.offered for node in nodes):
        return [_no_node(nodes)]
    labels = labels_of(demands)
    offered = [FreeNode(node) for node in nodes if node.offered and admits(demands, node)]
    shapes = shapes_of(demands) if offered else []
    reasons = [] if offered else [none_admitted(nodes, demands[0])]
    reasons += _first_unlike(one for shape in shapes for one in _shape_blockers(offered, shape))
    if not reasons and FreeNodes(nodes).place(demands) is None:
        reasons = [_nearest_domain(offered, demands) if demands[0].topology.is_required else _gang(offered, demands)]
    if any(reason.kind == "topology" for reason in reasons):  # what else there is
        apart = [replace(demand, topology=NEAREST) for demand in demands]
        return list(dict.fromkeys([*blockers(nodes, apart), *reasons]))
    if reasons and offered:
        reasons += _elsewhere(nodes, demands, labels)
    unlike = {asked_of_node(shape): shape for shape in shapes_of(demands)}.values() if reasons else ()
    away = [node for node in nodes if not node.offered and any(could(node, shape) for shape in unlike)]
    if reasons and away and FreeNodes([idle(node) for node in nodes]).place(demands) is not None:
        reasons += [
            Blocker("nodes", f"Node {node.name} is {node.why_not}, so nothing is placed on it.", node=node.name)
            for node in away[:5]
        ]
    return reasons


def _first_unlike(all_: Iterable[Blocker]) -> list[Blocker]:
    """Roles may share a reason, and a job may have thousands of roles."""
    unlike: dict[Blocker, None] = {}
    for blocker in all_:
        unlike[blocker] = None
        if len(unlike) == MOST:
            break
    return list(unlike)


def to_pull(nodes: Sequence[NodeView], demands: Sequence[Demand], placements: Sequence[Placement]) -> str:
    """A sentence about images that the gang, placed there, would wait for; empty when the nodes have them all."""
    images = {node.name: node.images for node in nodes}
    lacking = sorted(
        {(d.image, p.node) for d, p in zip(demands, placements, strict=True) if d.image not in images[p.node]}
    )
    if not lacking:
        return ""
    image, node = lacking[0]
    where = f"node {node}" if len(lacking) == 1 else f"{len(lacking)} of its nodes"
    return f"Its image {image} is not known to be on {where}, so it must first be pulled."


def could(node: NodeView, shape: Demand) -> bool:
    """Whether a task of this shape fits the node if that is idle and offered."""
    return shape.admits(node) and FreeNode(node, empty=True).fits(shape)


def shapes_of(demands: Sequence[Demand]) -> list[Demand]:
    """Return one task of each role."""
    return list({demand.role: demand for demand in demands}.values())


def labels_of(demands: Sequence[Demand]) -> Labels:
    """The labels that each node of the gang must have."""
    return demands[0].labels if demands else frozenset()


def admits(demands: Sequence[Demand], node: NodeView) -> bool:
    return not demands or demands[0].admits(node)


def written(labels: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels))


def none_admitted(nodes: Sequence[NodeView], demand: Demand) -> Blocker:
    """No node, or none that is offered, has the labels of which the task needs all."""
    offered = [node for node in nodes if node.offered] or nodes
    if any(demand.labels <= node.labels for node in offered):
        return _no_level(nodes, offered, demand.topology)
    return _no_label(nodes, offered, demand.labels)


def _no_label(nodes: Sequence[NodeView], offered: Sequence[NodeView], labels: Labels) -> Blocker:
    """What the nearest nodes have in place of the labels."""
    nearest = sorted(offered, key=lambda node: (len(labels - node.labels), node.name))[:3]
    lacks = "; ".join(f"{node.name} {_has_in_place(node, labels)}" for node in nearest)
    which = "No registered node has" if not any(labels <= node.labels for node in nodes) else "No node offered now has"
    need = written(labels)
    return Blocker("labels", f"{which} {_label(labels)} {need}: {lacks}.", need=need, node=nearest[0].name)


def _no_level(nodes: Sequence[NodeView], offered: Sequence[NodeView], asked: Topology) -> Blocker:
    """None of those with the labels is in a domain of the required level."""
    nearest = min(offered, key=lambda node: (-len(path_of(node.labels)), node.name))
    which = "registered node" if not any(asked.takes(node.labels) for node in nodes) else "node offered now"
    has = "/".join(path_of(nearest.labels)) or "none"
    parts = words.count(asked.level, "part")
    says = f"{asked.says}, but no {which} has that label with {parts}: {nearest.name} has {has}."
    return Blocker("topology", says, need=str(asked.level), node=nearest.name)


def _nearest_domain(offered: Sequence[FreeNode], demands: Sequence[Demand]) -> Blocker:
    """Which of the domains that are required would need the least to hold them all."""
    asked, tasks = demands[0].topology, Counter(demand.role for demand in demands)
    parts = domains_of(offered, asked).items()
    _, path, there = min(
        (short, path, says) for path, frees in parts for short, says in [_lacks(frees, demands, tasks)]
    )
    says = f"{asked.says}. The nearest is {'/'.join(path)}, with {there}."
    return Blocker("topology", says)


def domains_of(frees: Iterable[FreeNode], asked: Topology) -> dict[tuple[str, ...], list[FreeNode]]:
    parts: dict[tuple[str, ...], list[FreeNode]] = {}
    for free in frees:
        parts.setdefault(asked.domain(free.node.name, free.node.labels), []).append(free)
    return parts


def _lacks(
    frees: Sequence[FreeNode], demands: Sequence[Demand], tasks: Mapping[str, int]
) -> tuple[tuple[int, int], str]:
    """How many tasks do not fit there, and how many GPUs are missing; and in words what there is."""
    short, says = 0, "room for each role, but not for all at once"
    for shape in shapes_of(demands):
        there = [free for free in frees if free.fits(shape) and not bars(free.node, shape)]
        room = sum(copies(shape, free.cpus, free.memory_mb, free.free_gpus(shape.gpu_type)) for free in there)
        if room < tasks[shape.role]:
            says = f"room for {room} of {tasks[shape.role]} {shape.role} tasks" if not short else says
            short += tasks[shape.role] - room
    gpus = max(0, sum(demand.gpus for demand in demands) - sum(free.free_gpus(demands[0].gpu_type) for free in frees))
    return (short, gpus), says + (f": {words.count(gpus, 'GPU')} more must come free there" if gpus else "")


def _label(labels: Labels) -> str:
    return "the label" if len(labels) == 1 else "the labels"


def _has_in_place(node: NodeView, labels: Labels) -> str:
    lacking = {name for name, _ in labels - node.labels}
    instead = {name: value for name, value in node.labels if name in lacking}
    none = [f"no {name}" for name in sorted(lacking - instead.keys())]
    return "has " + ", and ".join([*([written(instead.items())] if instead else []), *none])


def _elsewhere(nodes: Sequence[NodeView], demands: Sequence[Demand], labels: Labels) -> list[Blocker]:
    """Whether nodes without the labels have room for the gang."""
    without = {node.name for node in nodes if not labels <= node.labels}
    placements = (
        FreeNodes([replace(node, labels=node.labels | labels) for node in nodes]).place(demands) if without else None
    )
    used = sorted({place.node for place in placements or ()} & without)
    if not used:
        return []
    names = " and ".join(used[:2]) if len(used) < 3 else f"{used[0]} and {len(used) - 1} others"
    has = "has" if len(used) == 1 else "have"
    sentence = f"{names} {has} room for it, but not {_label(labels)} {written(labels)}."
    return [Blocker("labels", sentence, need=written(labels), node=used[0])]


def _shape_blockers(frees: Sequence[FreeNode], shape: Demand) -> list[Blocker]:
    """The reasons of one shape of task. If a node would do but for its mark, that is the whole reason; the others are
    given when there is no such node."""
    barred = [(free, mark) for free in frees if (mark := bars(free.node, shape))]
    frees = [free for free in frees if not bars(free.node, shape)]
    if any(free.fits(shape) for free in frees):
        return []
    if told := [_marked(free, mark) for free, mark in barred if free.fits(shape) or not frees]:
        return told[:5]
    ports = _ports(frees, shape)
    reasons = [*_short(frees, shape), *([ports] if ports else [])]
    return reasons or [
        Blocker(
            "node",
            f"No single node has {as_asked(shape)} free at once; each {shape.role} needs them on one node.",
            need=as_asked(shape),
        )
    ]


def _marked(free: FreeNode, mark: Mark) -> Blocker:
    again = f" It is tried again at {mark.until.astimezone():%H:%M}." if mark.until else ""
    until = mark.until.isoformat() if mark.until else ""
    return Blocker("marked", f"{mark.sentence}{again}", node=free.node.name, until=until)


class _Resource(NamedTuple):
    """What a task needs of one resource, what a node has free of it, and its words for one and for several."""

    kind: str
    need: int
    have: Callable[[FreeNode], int]
    one: str
    several: str
    show: Callable[[int], str] = str


def resources(shape: Demand) -> tuple[_Resource, ...]:
    gpu = f"{words.visible(shape.gpu_type)} GPU" if shape.gpu_type else "GPU"
    return (
        _Resource("gpus", shape.gpus, lambda free: free.free_gpus(shape.gpu_type), gpu, f"{gpu}s"),
        _Resource("cpu", shape.cpus, lambda free: free.cpus, "CPU core", "CPU cores"),
        _Resource("memory", shape.memory_mb, lambda free: free.memory_mb, "of memory", "of memory", size),
    )


def _short(frees: Sequence[FreeNode], shape: Demand) -> list[Blocker]:
    """A reason for each resource of which no node has as much free as one task needs."""
    reasons = []
    for kind, need, have, one, several, show in resources(shape):
        best = sorted(frees, key=lambda free: (-have(free), free.node.name))
        most = max(0, have(best[0]))
        if most >= need:
            continue
        some = [f"{show(have(free))} on {free.node.name}" for free in best[:2] if have(free) > 0]
        there = f"the most that is free is {' and '.join(some)}" if some else "none is free now"
        what = several if need > 1 else one
        says = f"Each task of {shape.role} needs {show(need)} {what} on one node; {there}."
        marked = [mark for free in frees for mark in free.node.marks if mark.kind == "gpu"]
        if kind == "gpus" and marked:
            says += f" {marked[0].sentence}"
        reasons.append(Blocker(kind, says, need=show(need), have=show(most), node=best[0].node.name))
    return reasons


def _ports(frees: Sequence[FreeNode], shape: Demand) -> Blocker | None:
    if any(free.has_ports(shape.ports) for free in frees):
        return None
    fixed = [port for port in shape.ports if port.begin_at]
    if fixed:
        wanted = port_numbers(fixed)
        if refused := [port for port in fixed if not any(free.node.gives(port) for free in frees)]:
            return Blocker("ports", f"{not_given(refused)}; {shape.role} asks for exactly that.", need=wanted)
        says = f"Port {wanted} is taken on every node; {shape.role} asks for exactly that."
        numbers = {number for port in fixed for number in ports_of(port)}
        refused_until = [end for free in frees for port, end in free.node.refused_ports if port in numbers]
        if until := min(refused_until, default=None):
            says += f" Something outside Longshore uses it. It is tried again at {until.astimezone():%H:%M}."
        return Blocker("ports", says, need=wanted, until=until.isoformat() if until else "")
    number = sum(port.number for port in shape.ports)
    return Blocker("ports", f"No node has {number} free ports left for {shape.role}.", need=str(number))


def port_numbers(fixed: Sequence[PortDemand]) -> str:
    return ", ".join(
        str(port.begin_at) if port.number == 1 else f"{port.begin_at}-{port.begin_at + port.number - 1}"
        for port in fixed
    )


def not_given(refused: Sequence[PortDemand], of: str = "") -> str:
    return f"No node{of} gives out port {port_numbers(refused)}"


def _gang(frees: Sequence[FreeNode], demands: Sequence[Demand]) -> Blocker:
    gpus = sum(demand.gpus for demand in demands)
    if gpus:
        kind = demands[0].gpu_type
        have = sum(free.free_gpus(kind) for free in frees)
        need, free_text = words.count(gpus, "GPU"), words.count(have, "GPU")
    else:
        have = sum(free.cpus for free in frees)
        need = words.count(sum(demand.cpus for demand in demands), "CPU core")
        free_text = words.count(have, "CPU core")
    return Blocker(
        "gang",
        f"The {len(demands)} tasks start together or not at all. They need {need} in the right pieces; "
        f"{free_text} {'is' if have == 1 else 'are'} free, on {words.count(len(frees), 'node')}.",
        need=need,
        have=free_text,
    )


def _no_node(nodes: Sequence[NodeView]) -> Blocker:
    if not nodes:
        return Blocker("nodes", "No node is registered yet. An admin adds one on the Nodes page or by the API.")
    listed = ", ".join(f"{node.name} is {node.why_not}" for node in nodes[:3])
    return Blocker("nodes", f"No node takes tasks now: {listed}.", need="1", have="0")


def as_asked(shape: Demand) -> str:
    asked = (each for each in resources(shape) if each.need or each.kind != "gpus")
    return ", ".join(f"{each.show(each.need)} {each.several}" for each in asked)


def size(megabytes: int) -> str:
    return f"{megabytes / 1024:.3g} GB" if megabytes >= 1024 else f"{megabytes} MB"
