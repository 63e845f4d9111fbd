"""What is written of a task and of a node at one moment: the columns of their files, and the values. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from clusters.engines.measuring import ContainerUsage
from jobs.metrics.gpus import FIELDS, GpuUse, total
from jobs.metrics.layout import NAN

# CPU in cores, sizes in bytes, network and disk in bytes a second.
OF_A_TASK = ("cpu", "memory", "pids", "shared", "networkIn", "networkOut", "diskRead", "diskWritten")
OF_A_GPU = ("Util", "Memory", "Power")  # behind gpu and its id
SUMS = ("cpu", "memory", "networkIn", "networkOut", "diskRead", "diskWritten")
# What the tasks of a node use together. gpus: those of which is known how busy they are; gpusBusy: two that are half
# busy are one; gpusIdle: those that tasks hold and do not use. All can be added up over nodes.
OF_A_NODE = ("tasks", *SUMS, "gpus", "gpusBusy", "gpuMemory", "gpusIdle")
OF_A_NODES_GPU = FIELDS
IDLE = 5.0  # percent: a GPU that is less busy is idle
NEW = 30.0  # seconds: what a container used since its start says how busy it is, while it is not older


FRESH = 60  # seconds: what was known before is not how it is now


def is_fresh(known: int, now: float) -> bool:
    """Whether what was known then (seconds since 1970) is how it is now. What is of a later moment is not: the clock
    has stepped back since, and nobody knows how old it is."""
    return abs(now - known) <= FRESH


def idle_since(known: int, busy: int, now: float, after: float) -> int:
    """Since when (seconds since 1970) a GPU is idle of which it was known then how busy it is, and that was busy then;
    0 when it is not, or not for so long, or when nobody measures it now."""
    return busy if is_fresh(known, now) and now - busy >= after else 0


def columns_of(gpu_ids: Sequence[str]) -> tuple[str, ...]:
    """The columns of a task with these GPUs."""
    return (*OF_A_TASK, *(f"gpu{id}{what}" for id in gpu_ids for what in OF_A_GPU))


def task_values(
    now: ContainerUsage, before: ContainerUsage | None, gpu_ids: Sequence[str], gpus: Mapping[str, GpuUse]
) -> list[float]:
    """The values of ``columns_of(gpu_ids)``. Rates are those since ``before``."""
    values = [NAN] * len(OF_A_TASK)
    values[1:4] = float(now.memory), _known(now.pids), _known(now.shared)
    if before is not None and (seconds := now.at - before.at) >= 1:
        values[0] = _rate(now.cpu, before.cpu, seconds)
        values[4:6] = _rates(now.network, before.network, seconds)
        values[6:8] = _rates(now.disk, before.disk, seconds)
    uses = [gpus.get(id, GpuUse()) for id in gpu_ids]
    return [*values, *(value for use in uses for value in (use.util, use.memory, use.power))]


def at_start(now: ContainerUsage, started: float | None) -> ContainerUsage | None:
    """A container's usage when it started (seconds since 1970, by the engine's clock), if that is not long ago: then
    its first sample has rates. Of an older one nobody knows what it used lately."""
    if started is None or not 1 <= now.at - started <= NEW:
        return None
    return ContainerUsage(started, 0.0, 0, network=_nothing(now.network), disk=_nothing(now.disk))


def node_values(
    runs: int, tasks: Sequence[Sequence[float]], gpus: Mapping[str, GpuUse], held: Sequence[str]
) -> list[float]:
    """The values of OF_A_NODE. ``runs``: how many tasks run there; ``tasks``: the values of those that were measured;
    ``gpus``: by id, of all its GPUs that are known; ``held``: the ids that tasks hold."""
    sums = [total(row[OF_A_TASK.index(name)] for row in tasks) for name in SUMS]
    if not runs:
        sums[:2] = 0.0, 0.0  # no CPU and no memory; of bytes that nobody counts nothing is said
    utils = [use.util for use in gpus.values() if not math.isnan(use.util)]
    busy = sum(utils) / 100 if utils else NAN
    known = [gpus[id].util for id in held if id in gpus and not math.isnan(gpus[id].util)]
    idle = float(sum(util < IDLE for util in known)) if known else NAN
    return [float(runs), *sums, float(len(utils)) or NAN, busy, total(use.memory for use in gpus.values()), idle]


def cluster_values(nodes: Sequence[Sequence[float]]) -> list[float]:
    """The values of OF_A_NODE for all nodes together."""
    return [total(row[at] for row in nodes) for at in range(len(OF_A_NODE))]


def _known(value: int | None) -> float:
    return NAN if value is None else float(value)


def _rate(now: float, before: float, seconds: float) -> float:
    """The growth of a counter in a second; a NaN when it went back, as it has begun anew and nobody knows."""
    return (now - before) / seconds if now >= before else NAN


def _rates(now: tuple[int, int] | None, before: tuple[int, int] | None, seconds: float) -> tuple[float, float]:
    if now is None or before is None:
        return NAN, NAN
    return _rate(now[0], before[0], seconds), _rate(now[1], before[1], seconds)


def _nothing(counted: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if counted is None else (0, 0)
