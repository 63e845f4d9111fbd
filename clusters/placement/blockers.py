"""Gives every reason why a gang does not start. Pure; the checks are those of clusters.placement.fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from clusters.placement.fit import (
    Blocker,
    Demand,
    Free,
    Labels,
    Mark,
    NodeView,
    Placement,
    PortDemand,
    bars,
    copies,
    idle,
)
from clusters.placement.room import Room


def blockers(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> list[Blocker]:
    """All that is short for this gang on the nodes as they are now; empty when it would be placed."""
    if not any(node.offered for node in nodes):
        return [_no_node(nodes)]
    labels = labels_of(demands)
    offered = [Free(node) for node in nodes if node.offered and labels <= node.labels]
    shapes = shapes_of(demands) if offered else []
    found = [] if offered else [_no_label(nodes, labels)]
    found += dict.fromkeys(one for shape in shapes for one in _shape_blockers(offered, shape))  # roles may share one
    if not found and Room(nodes).place(demands) is None:
        found = [_gang(offered, demands)]
    if found and offered:
        found += _elsewhere(nodes, demands, labels)
    away = [node for node in nodes if not node.offered and any(could(node, shape) for shape in shapes_of(demands))]
    if found and away and Room([idle(node) for node in nodes]).place(demands) is not None:
        found += [
            Blocker("nodes", f"Node {node.name} is {node.why_not}, so nothing is placed on it.", node=node.name)
            for node in away[:5]
        ]
    return found


def never_fits(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> Blocker | None:
    """The reason why even all registered nodes together, idle, could not hold this gang; None when they could. It says
    "never" only where that is certain, node by node and in sum: a packing that is merely hard to find does not
    count."""
    if not nodes:
        return None  # a first node may be registered any minute
    labels = labels_of(demands)
    idles = [Free(idle(node)) for node in nodes if labels <= node.labels]
    if not idles:
        return replace(_no_label(nodes, labels), kind="never")
    for shape in shapes_of(demands):
        if not any(free.fits(shape) for free in idles):
            return _no_node_ever(idles, shape)
        wanted = sum(demand.role == shape.role for demand in demands)
        room = sum(
            copies(shape, free.cpus, free.memory_mb, free.free_gpus(shape.gpu_type))
            for free in idles
            if free.fits(shape)
        )
        if room < wanted:
            return Blocker(
                "never",
                f"All nodes together have room for {room} {shape.role} tasks at once; the job asks for {wanted}.",
                need=str(wanted),
                have=str(room),
            )
    return _too_much_in_sum(idles, demands)


def to_pull(nodes: Sequence[NodeView], demands: Sequence[Demand], places: Sequence[Placement]) -> str:
    """A sentence about images that the gang, placed there, would wait for; empty when the nodes have them all."""
    images = {node.name: node.images for node in nodes}
    lacking = sorted({(d.image, p.node) for d, p in zip(demands, places, strict=True) if d.image not in images[p.node]})
    if not lacking:
        return ""
    image, node = lacking[0]
    where = f"node {node}" if len(lacking) == 1 else f"{len(lacking)} of its nodes"
    return f"Its image {image} is not known to be on {where}, so it must first be pulled."


def could(node: NodeView, shape: Demand) -> bool:
    """Whether a task of this shape fits the node if that is idle and offered."""
    return shape.labels <= node.labels and Free(idle(node)).fits(shape)


def shapes_of(demands: Sequence[Demand]) -> list[Demand]:
    """One task of each role."""
    return list({demand.role: demand for demand in demands}.values())


def labels_of(demands: Sequence[Demand]) -> Labels:
    """The labels that each node of the gang must have."""
    return demands[0].labels if demands else frozenset()


def written(labels: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels))


def _no_label(nodes: Sequence[NodeView], labels: Labels) -> Blocker:
    """No node, or none that is offered, has the labels: what the nearest ones have in their place."""
    offered = [node for node in nodes if node.offered] or nodes
    nearest = sorted(offered, key=lambda node: (len(labels - node.labels), node.name))[:3]
    lacks = "; ".join(f"{node.name} {_has_in_place(node, labels)}" for node in nearest)
    which = "No registered node has" if not any(labels <= node.labels for node in nodes) else "No node offered now has"
    need = written(labels)
    return Blocker("labels", f"{which} {_label(labels)} {need}: {lacks}.", need=need, node=nearest[0].name)


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
    places = Room([replace(node, labels=labels) for node in nodes]).place(demands) if without else None
    used = sorted({place.node for place in places or ()} & without)
    if not used:
        return []
    names = " and ".join(used[:2]) if len(used) < 3 else f"{used[0]} and {len(used) - 1} others"
    has = "has" if len(used) == 1 else "have"
    sentence = f"{names} {has} room for it, but not {_label(labels)} {written(labels)}."
    return [Blocker("labels", sentence, need=written(labels), node=used[0])]


def _shape_blockers(frees: Sequence[Free], shape: Demand) -> list[Blocker]:
    """The reasons of one shape of task. If a node would do but for its mark, that is the whole reason; the others are
    given when there is no such node."""
    barred = [(free, mark) for free in frees if (mark := bars(free.node, shape))]
    frees = [free for free in frees if not bars(free.node, shape)]
    if any(free.fits(shape) for free in frees):
        return []
    if told := [_marked(free, mark) for free, mark in barred if free.fits(shape) or not frees]:
        return told[:5]
    found = [blocker for check in (_gpus, _cpus, _memory, _ports) if (blocker := check(frees, shape))]
    return found or [
        Blocker(
            "node",
            f"No single node has {_asked(shape)} free at once; each {shape.role} needs them on one node.",
            need=_asked(shape),
        )
    ]


def _marked(free: Free, mark: Mark) -> Blocker:
    again = f" It is tried again at {mark.until.astimezone():%H:%M}." if mark.until else ""
    until = mark.until.isoformat() if mark.until else ""
    return Blocker("marked", f"{mark.sentence}{again}", node=free.node.name, until=until)


def _gpus(frees: Sequence[Free], shape: Demand) -> Blocker | None:
    if not shape.gpus:
        return None
    kind = f"{shape.gpu_type} GPU" if shape.gpu_type else "GPU"
    kind += "s" * (shape.gpus > 1)
    return _short(frees, shape, "gpus", shape.gpus, lambda free: free.free_gpus(shape.gpu_type), kind, str)


def _cpus(frees: Sequence[Free], shape: Demand) -> Blocker | None:
    return _short(
        frees, shape, "cpu", shape.cpus, lambda free: free.cpus, "CPU cores" if shape.cpus > 1 else "CPU core", str
    )


def _memory(frees: Sequence[Free], shape: Demand) -> Blocker | None:
    return _short(frees, shape, "memory", shape.memory_mb, lambda free: free.memory_mb, "of memory", size)


def _short(
    frees: Sequence[Free],
    shape: Demand,
    kind: str,
    need: int,
    have: Callable[[Free], int],
    what: str,
    show: Callable[[int], str],
) -> Blocker | None:
    best = sorted(frees, key=lambda free: (-have(free), free.node.name))
    most = max(0, have(best[0]))
    if most >= need:
        return None
    some = [f"{show(have(free))} on {free.node.name}" for free in best[:2] if have(free) > 0]
    there = f"the most that is free is {' and '.join(some)}" if some else "none is free now"
    return Blocker(
        kind,
        f"Each task of {shape.role} needs {show(need)} {what} on one node; {there}.",
        need=show(need),
        have=show(most),
        node=best[0].node.name,
    )


def _ports(frees: Sequence[Free], shape: Demand) -> Blocker | None:
    if any(free.has_ports(shape.ports) for free in frees):
        return None
    fixed = [port for port in shape.ports if port.begin_at]
    if fixed:
        wanted = _numbers(fixed)
        if refused := [port for port in fixed if not any(free.node.gives(port) for free in frees)]:
            return Blocker("ports", f"{_not_given(refused)}; {shape.role} asks for exactly that.", need=wanted)
        return Blocker(
            "ports", f"Port {wanted} is taken on every node; {shape.role} asks for exactly that.", need=wanted
        )
    number = sum(port.number for port in shape.ports)
    return Blocker("ports", f"No node has {number} free ports left for {shape.role}.", need=str(number))


def _numbers(fixed: Sequence[PortDemand]) -> str:
    return ", ".join(
        str(port.begin_at) if port.number == 1 else f"{port.begin_at}-{port.begin_at + port.number - 1}"
        for port in fixed
    )


def _not_given(refused: Sequence[PortDemand]) -> str:
    return f"No node gives out port {_numbers(refused)}"


def _gang(frees: Sequence[Free], demands: Sequence[Demand]) -> Blocker:
    gpus = sum(demand.gpus for demand in demands)
    if gpus:
        kind = demands[0].gpu_type
        have = sum(free.free_gpus(kind) for free in frees)
        need, free_text = f"{gpus} GPUs", f"{have} GPUs"
    else:
        need = f"{sum(demand.cpus for demand in demands)} CPU cores"
        free_text = f"{sum(free.cpus for free in frees)} CPU cores"
    return Blocker(
        "gang",
        f"The {len(demands)} tasks start together or not at all. They need {need} in the right pieces; "
        f"{free_text} are free, spread over {len(frees)} nodes.",
        need=need,
        have=free_text,
    )


def _no_node(nodes: Sequence[NodeView]) -> Blocker:
    if not nodes:
        return Blocker("nodes", "No node is registered yet. An admin adds one on the Nodes page or by the API.")
    listed = ", ".join(f"{node.name} is {node.why_not}" for node in nodes[:3])
    return Blocker("nodes", f"No node takes tasks now: {listed}.", need="1", have="0")


def _no_node_ever(idles: Sequence[Free], shape: Demand) -> Blocker:
    fixed = [port for port in shape.ports if port.begin_at]
    if refused := [port for port in fixed if not any(free.node.gives(port) for free in idles)]:
        return Blocker("never", f"{_not_given(refused)}; {shape.role} asks for exactly that.", need=_numbers(fixed))
    nearest = min(idles, key=lambda free: (sum(short for short, _ in _lacks(free, shape)), free.node.name))
    lacks = " and ".join(text for _, text in _lacks(nearest, shape)) or "ports outside what it may give"
    return Blocker(
        "never",
        f"No registered node could ever run {shape.role}. The nearest is {nearest.node.name}: it has {lacks}.",
        need=_asked(shape),
        node=nearest.node.name,
    )


def _lacks(free: Free, shape: Demand) -> list[tuple[float, str]]:
    """(how far off, what is short) for each resource of an idle node that this task does not fit."""
    has, kind = free.free_gpus(shape.gpu_type), f"{shape.gpu_type} " if shape.gpu_type else ""
    checks = (
        (shape.gpus, has, f"{has} {kind}GPUs of the {shape.gpus} asked for"),
        (shape.cpus, free.cpus, f"{free.cpus} CPU cores of the {shape.cpus} asked for"),
        (shape.memory_mb, free.memory_mb, f"{size(free.memory_mb)} of memory of the {size(shape.memory_mb)} asked for"),
    )
    return [((need - have) / need, text) for need, have, text in checks if need > have]


def _too_much_in_sum(idles: Sequence[Free], demands: Sequence[Demand]) -> Blocker | None:
    kind = demands[0].gpu_type if demands else ""
    totals = (
        ("GPUs", sum(d.gpus for d in demands), sum(free.free_gpus(kind) for free in idles), str),
        ("CPU cores", sum(d.cpus for d in demands), sum(free.cpus for free in idles), str),
        ("memory", sum(d.memory_mb for d in demands), sum(free.memory_mb for free in idles), size),
    )
    for what, need, have, show in totals:
        if need > have:
            return Blocker(
                "never",
                f"The job asks for {show(need)} {what} at once; all nodes together have {show(have)}.".replace(
                    " memory at once", " of memory at once"
                ),
                need=show(need),
                have=show(have),
            )
    return None


def _asked(shape: Demand) -> str:
    kind = f"{shape.gpu_type} " if shape.gpu_type else ""
    gpus = [f"{shape.gpus} {kind}GPUs"] if shape.gpus else []
    return ", ".join([*gpus, f"{shape.cpus} CPU cores", f"{size(shape.memory_mb)} of memory"])


def size(megabytes: int) -> str:
    return f"{megabytes / 1024:.3g} GB" if megabytes >= 1024 else f"{megabytes} MB"
