"""How full placement makes a real cluster, beside the rules of others: tasks come until they have asked for as many
GPUs as there are, each is placed once or never, and what counts is the part of all GPUs that is allocated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import Protocol

from benchmarks.packing.rules import RandomFit, Ruled, best_fit, dot_product, least_fragments
from benchmarks.packing.trace import NodeShape, Shape, Workload, nodes
from benchmarks.report import Report
from benchmarks.sizes import size
from clusters.placement.fit import Demand, NodeView
from clusters.placement.free import FreeNodes
from clusters.placement.shares import wanted

TYPED = {"a third typed": 1 / 3, "no types": 0.0, "a tenth typed": 0.1, "two thirds typed": 2 / 3, "all typed": 1.0}
SEEDS = size(range(3), range(1))
LEAST = {"a third typed": 0.96, "no types": 0.969}  # whatever others reach
PASS = 20  # tasks that come between two passes
CPU = 100  # microseconds for a task


class Placer(Protocol):
    def place(self, task: Shape) -> bool:
        """Whether the task got a place, which it keeps."""


class Longshore:
    """The placement that a pass executes. Tasks that came run or wait, so they are all that is asked for."""

    def __init__(self, shapes: Sequence[NodeShape]) -> None:
        views = [
            NodeView(
                name=f"n{at}",
                address="",
                cpus=shape.cpus,
                memory_mb=shape.memory_mb,
                gpus=tuple((str(id), shape.gpu_type) for id in range(shape.gpus)),
                port_from=0,
                port_to=0,
            )
            for at, shape in enumerate(shapes)
        ]
        self._views, self._free, self._demands = views, FreeNodes(views), dict[Shape, Demand]()
        self._named, self._came = Counter[str](), 0
        self.seconds = 0.0  # of CPU

    def place(self, task: Shape) -> bool:
        if task not in self._demands:
            self._demands[task] = Demand("t-0", "t", 0, task.cpus, task.memory_mb, task.gpus, task.gpu_type)
        self._named[task.gpu_type] += task.gpus
        self._came += 1
        if not self._came % PASS:
            self._free = self._free.copy(wanted=wanted(self._views, self._named))
        began = time.process_time()
        placements = self._free.place([self._demands[task]])
        self.seconds += time.process_time() - began
        return placements is not None


def measure(report: Report) -> None:
    for title, typed in TYPED.items():
        _measure(report, title, typed)


def _measure(report: Report, title: str, typed: float) -> None:
    parts: dict[str, list[float]] = {}
    costs, most = list[float](), list[float]()
    shapes = nodes()[:: size(1, 20)]
    there = sum(shape.gpus for shape in shapes)
    for seed in SEEDS:
        workload = Workload(typed, seed)
        tasks = list(workload.tasks(there))
        ours = Longshore(shapes)
        placers: dict[str, Placer] = {
            "Longshore": ours,
            "random fit": RandomFit(shapes, seed),
            "best fit": Ruled(shapes, best_fit(shapes)),
            "dot product": Ruled(shapes, dot_product(shapes)),
            "FGD": Ruled(shapes, least_fragments(workload.shares())),
        }
        for name, placer in placers.items():
            parts.setdefault(name, []).append(sum(task.gpus for task in tasks if placer.place(task)) / there)
        costs.append(1e6 * ours.seconds / len(tasks))
        most.append(possible(tasks, shapes) / there)
    got, *others = (mean(each) for each in parts.values())
    beside = ", ".join(f"{name} {100 * mean(parts[name]):.1f}" for name in [*parts][1:])
    least = max(*others, LEAST.get(title, 0.0))
    report.add(f"GPUs allocated, {title}", f"{100 * got:.1f} %", beside, f">= {100 * least:.1f} %", got >= least)
    report.add(
        "  of what the types allow", f"{100 * got / mean(most):.1f} %", f"of {100 * mean(most):.1f} % of all GPUs"
    )
    cost = mean(costs)
    report.add("  CPU for a task", f"{cost:.0f} us", f"{max(costs):.0f} at most", f"<= {CPU} us", cost <= CPU)


def possible(tasks: Sequence[Shape], shapes: Sequence[NodeShape]) -> int:
    """How many GPUs of these could be allocated if only their number and types counted: more of a type than there are
    may be asked for."""
    there, named = Counter[str](), Counter[str]()
    for shape in shapes:
        there[shape.gpu_type] += shape.gpus
    for task in tasks:
        named[task.gpu_type] += task.gpus
    open_ = named.pop("", 0)
    by_name = sum(min(asked, there[kind]) for kind, asked in named.items())
    return by_name + min(open_, there.total() - by_name)
