"""The plots of a job's page: which column each shows, in which unit, and how its numbers are written. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from base.core import words
from portal.reports.drawing import nice_top


@dataclass(frozen=True, slots=True)
class PlotKind:
    """``column`` of each GPU with ``of_gpus``; then a task's value is the mean of its GPUs, or their sum. ``why_not``:
    why nothing may be known of it."""

    key: str
    title: str
    unit: str  # of UNITS
    column: str = ""
    of_gpus: str = ""  # mean, sum
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """``write``: a value in words; ``base``: its labels go up in steps of 1024 or 1000."""

    write: Callable[[float], str]
    base: int = 1000


def _plain(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 1 else 2}f}".rstrip("0").rstrip(".")


UNITS = {
    "cores": Unit(_plain),
    "count": Unit(_plain),
    "percent": Unit(lambda value: f"{value:.0f} %"),
    "watts": Unit(lambda value: f"{value:,.0f} W"),
    "degrees": Unit(lambda value: f"{value:.0f} °C"),
    "bytes": Unit(lambda value: words.size(int(value)), 1024),
    "rate": Unit(lambda value: f"{words.size(int(value))}/s", 1024),
}
_GPU = (
    "GPUs are measured by the exporter of their node, whose address an admin sets, or by nvidia-smi in the container."
)
_NETWORK = "It is counted where tasks have a network of their own; on the network of the host nobody tells whose it is."
_DISK = "Nothing was read or written on a disk, or the node's kernel does not count it."
_TRAFFIC = (
    PlotKind("networkIn", "Network in", "rate", "networkIn", why_not=_NETWORK),
    PlotKind("networkOut", "Network out", "rate", "networkOut", why_not=_NETWORK),
    PlotKind("diskRead", "Disk read", "rate", "diskRead", why_not=_DISK),
    PlotKind("diskWritten", "Disk written", "rate", "diskWritten", why_not=_DISK),
)
KINDS = (
    PlotKind("gpu", "GPU busy", "percent", "Util", "mean", why_not=_GPU),
    PlotKind("gpuMemory", "GPU memory", "bytes", "Memory", "sum", why_not=_GPU),
    PlotKind("gpuPower", "GPU power", "watts", "Power", "sum", why_not=_GPU),
    PlotKind("cpu", "CPU", "cores", "cpu"),
    PlotKind("memory", "Memory", "bytes", "memory"),
    PlotKind("shared", "Shared memory", "bytes", "shared", why_not="The node's kernel does not count it."),
    *_TRAFFIC,
    PlotKind("pids", "Processes and threads", "count", "pids"),
)
# Of a node, or of all together: what tasks use. The column of a kind with "each" is that of each GPU.
NODE_KINDS = (
    PlotKind("gpu", "GPUs busy", "percent", "util", "each", why_not=_GPU),
    PlotKind("gpuMemory", "GPU memory", "bytes", "memory", "each", why_not=_GPU),
    PlotKind("gpuPower", "GPU power", "watts", "power", "each", why_not=_GPU),
    PlotKind("gpuHeat", "GPU temperature", "degrees", "temperature", "each", why_not=_GPU),
    PlotKind("cpu", "CPU of tasks", "cores", "cpu"),
    PlotKind("memory", "Memory of tasks", "bytes", "memory"),
    PlotKind("tasks", "Running tasks", "count", "tasks"),
    *_TRAFFIC,
)
CLUSTER_KINDS = (
    PlotKind("gpu", "GPUs busy", "count", "gpusBusy", why_not=_GPU),
    PlotKind("gpuMemory", "GPU memory", "bytes", "gpuMemory", why_not=_GPU),
    PlotKind("gpuIdle", "GPUs held and not busy", "count", "gpusIdle", why_not=_GPU),
    *(kind for kind in NODE_KINDS if not kind.of_gpus),
)


def write(kind: PlotKind, value: float | None) -> str:
    return words.NOTHING if value is None or math.isnan(value) else UNITS[kind.unit].write(value)


def of(kind: PlotKind, gpu_ids: Sequence[str], columns: Mapping[str, float | None]) -> float | None:
    """The value of a task from those of its columns; None where nobody knows."""
    if not kind.of_gpus:
        return columns.get(kind.column)
    known = [value for id in gpu_ids if (value := columns.get(f"gpu{id}{kind.column}")) is not None]
    if not known:
        return None
    return sum(known) / len(known) if kind.of_gpus == "mean" else sum(known)


def top_of(kind: PlotKind, values: Sequence[float], asked: float | None = None) -> float:
    """A round number at or above all values, and above what was asked for."""
    if kind.unit == "percent":
        return 100.0
    most = max([*values, (asked or 0.0)], default=0.0) or float(UNITS[kind.unit].base > 1000) * 1024
    unit, base = 1.0, UNITS[kind.unit].base
    while base > 1000 and most >= 1000 * unit and unit < base**4:
        unit *= base
    return nice_top(most / unit) * unit
