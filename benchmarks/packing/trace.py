"""The openb cluster and its tasks: what a real cluster has, and what people asked of it.

``nodes.csv`` and ``tasks.csv`` count the shapes of 1,213 nodes and 8,152 tasks: whole GPUs, and cores rounded up. They
are derived from Alibaba's cluster-trace-gpu-v2023, files ``openb_node_list_gpu_node`` and ``openb_pod_list_gpuspec33``
(github.com/alibaba/clusterdata, given for study and research; Weng et al., "Beware of Fragmentation", USENIX ATC '23).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random


@dataclass(frozen=True, slots=True)
class Shape:
    """What one task asks for."""

    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str = ""  # "" = any


@dataclass(frozen=True, slots=True)
class NodeShape:
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str


def nodes() -> list[NodeShape]:
    return [
        NodeShape(int(row["cpus"]), int(row["memory_mb"]), int(row["gpus"]), row["gpu_type"])
        for row in _rows("nodes")
        for _ in range(int(row["nodes"]))
    ]


class Workload:
    """Tasks by the shapes of the trace, endlessly. ``typed`` is the part of the GPU tasks that name a type; the trace
    itself has a third. Below that, some of those who name one leave it open; above it, those who name one come more
    often. Of a task that names several types one is drawn, as a job of ours names one."""

    def __init__(self, typed: float, seed: int) -> None:
        self._random = Random(seed)
        rows = [(int(row["tasks"]), _shape(row), row["gpu_types"].split("|")) for row in _rows("tasks")]
        self._shapes = [(shape, kinds) for _, shape, kinds in rows]
        named = sum(number for number, shape, kinds in rows if shape.gpus and kinds != [""])
        any_type = sum(number for number, shape, kinds in rows if shape.gpus and kinds == [""])
        third = named / (named + any_type)
        self._keeps = min(1.0, typed / third)
        # More of those who name a type, and fewer of the others.
        more, fewer = max(1.0, typed / third), min(1.0, (1 - typed) / (1 - third))
        self._weights = [
            number * (1 if not shape.gpus else fewer if kinds == [""] else more) for number, shape, kinds in rows
        ]

    def tasks(self, gpus: int) -> Iterator[Shape]:
        """Until they have asked for so many GPUs together."""
        random, asked = self._random, 0
        while asked < gpus:
            for shape, kinds in random.choices(self._shapes, self._weights, k=100):
                if kinds != [""] and random.random() < self._keeps:
                    shape = replace(shape, gpu_type=random.choice(kinds))
                asked += shape.gpus
                if asked <= gpus:
                    yield shape

    def shares(self) -> list[tuple[float, Shape]]:
        """Each kind of GPU task with its part of all, for those who place by what is usual."""
        shares: dict[Shape, float] = {}
        for weight, (shape, kinds) in zip(self._weights, self._shapes, strict=True):
            if shape.gpus:
                parts = [(replace(shape, gpu_type=kind), weight / len(kinds)) for kind in kinds]
                if kinds != [""]:
                    parts = [(one, part * self._keeps) for one, part in parts]
                    parts.append((shape, weight * (1 - self._keeps)))
                for one, part in parts:
                    shares[one] = shares.get(one, 0) + part
        whole = sum(shares.values())
        return [(part / whole, shape) for shape, part in shares.items() if part]


def _shape(row: dict[str, str]) -> Shape:
    return Shape(int(row["cpus"]), int(row["memory_mb"]), int(row["gpus"]))


def _rows(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(f"{name}.csv").open() as file:
        return list(csv.DictReader(file))
