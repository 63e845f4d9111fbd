"""Says whether a gang could ever run on the registered nodes. Pure; the checks are those of clusters.placement.fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from base.core.words import count
from clusters.placement.blockers import (
    admits,
    as_asked,
    domains_of,
    none_admitted,
    not_given,
    port_numbers,
    resources,
    shapes_of,
)
from clusters.placement.fit import Blocker, Demand, FreeNode, NodeView, copies


def never_fits(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> Blocker | None:
    """The reason why even all registered nodes together, idle, could not hold this gang; None when they could. It says
    "never" only where that is certain, node by node and in sum: a packing that is merely hard to find does not
    count."""
    tasks = Counter(demand.role for demand in demands)
    return never_fit(nodes, [(shape, tasks[shape.role]) for shape in shapes_of(demands)])


def never_fit(nodes: Sequence[NodeView], shapes: Sequence[tuple[Demand, int]]) -> Blocker | None:
    """The same of a gang of which each role is told by one task of it, and how many it has."""
    if not nodes:
        return None  # a first node may be registered any minute
    one_of_each = [shape for shape, _ in shapes]
    idles = [FreeNode(node, empty=True) for node in nodes if admits(one_of_each, node)]
    if not idles:
        return replace(none_admitted(nodes, one_of_each[0]), kind="never")
    never = _never_on(idles, shapes)
    if never or not shapes or not (asked := shapes[0][0].topology).is_required:
        return never
    parts = domains_of(idles, asked)
    nevers = {path: _never_on(frees, shapes, f" of {'/'.join(path)}") for path, frees in parts.items()}
    largest = min(parts, key=lambda path: (-sum(len(free.gpus) for free in parts[path]), -len(parts[path]), path))
    says = nevers[largest]
    if says is None or not all(nevers.values()):
        return None
    return replace(says, sentence=f"{asked.says}, and none could ever hold them. Of the largest: {says.sentence}")


def _never_on(idles: Sequence[FreeNode], shapes: Sequence[tuple[Demand, int]], of: str = "") -> Blocker | None:
    """Why these nodes, idle, could not hold the gang; ``of`` says which ones they are."""
    for shape, wanted in shapes:
        if not any(free.fits(shape) for free in idles):
            return _no_node_ever(idles, shape, of)
        free = sum(
            copies(shape, free.cpus, free.memory_mb, free.free_gpus(shape.gpu_type))
            for free in idles
            if free.fits(shape)
        )
        if free < wanted:
            return Blocker(
                "never",
                f"All nodes{of} together have room for {count(free, f'{shape.role} task')} at once; "
                f"the job asks for {wanted}.",
                need=str(wanted),
                have=str(free),
            )
    return _too_much_in_sum(idles, shapes, of)


def _no_node_ever(idles: Sequence[FreeNode], shape: Demand, of: str) -> Blocker:
    fixed = [port for port in shape.ports if port.begin_at]
    if refused := [port for port in fixed if not any(free.node.gives(port) for free in idles)]:
        return Blocker(
            "never", f"{not_given(refused, of)}; {shape.role} asks for exactly that.", need=port_numbers(fixed)
        )
    nearest = min(idles, key=lambda free: (sum(short for short, _ in _lacks(free, shape)), free.node.name))
    lacks = " and ".join(text for _, text in _lacks(nearest, shape)) or "ports outside what it may give"
    return Blocker(
        "never",
        f"No registered node{of} could ever run {shape.role}. The nearest is {nearest.node.name}: it has {lacks}.",
        need=as_asked(shape),
        node=nearest.node.name,
    )


def _lacks(free: FreeNode, shape: Demand) -> list[tuple[float, str]]:
    """(how far off, what is short) for each resource of an idle node that this task does not fit."""
    return [
        ((need - have(free)) / need, f"{show(have(free))} {several} of the {show(need)} asked for")
        for _, need, have, _, several, show in resources(shape)
        if need > have(free)
    ]


def _too_much_in_sum(idles: Sequence[FreeNode], shapes: Sequence[tuple[Demand, int]], of: str) -> Blocker | None:
    if not shapes:
        return None
    whole = replace(
        shapes[0][0],
        gpus=sum(number * shape.gpus for shape, number in shapes),
        cpus=sum(number * shape.cpus for shape, number in shapes),
        memory_mb=sum(number * shape.memory_mb for shape, number in shapes),
    )
    for kind, need, have_on, _, several, show in resources(whole):
        have, what = sum(map(have_on, idles)), "GPUs" if kind == "gpus" else several
        if need > have:
            says = f"The job asks for {show(need)} {what} at once; all nodes{of} together have {show(have)}."
            return Blocker("never", says, need=show(need), have=show(have))
    return None
