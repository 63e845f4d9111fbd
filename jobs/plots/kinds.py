"""The plots of a job's page: which column each shows, in which unit, and how its numbers are written. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jobs.reports.plot import nice_top
from portal.core import words


@dataclass(frozen=True, slots=True)
class Kind:
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
KINDS = (
    Kind("gpu", "GPU busy", "percent", "Util", "mean", why_not=_GPU),
    Kind("gpuMemory", "GPU memory", "bytes", "Memory", "sum", why_not=_GPU),
    Kind("gpuPower", "GPU power", "watts", "Power", "sum", why_not=_GPU),
    Kind("cpu", "CPU", "cores", "cpu"),
    Kind("memory", "Memory", "bytes", "memory"),
    Kind("shared", "Shared memory", "bytes", "shared", why_not="The node's kernel does not count it."),
    Kind("networkIn", "Network in", "rate", "networkIn", why_not=_NETWORK),
    Kind("networkOut", "Network out", "rate", "networkOut", why_not=_NETWORK),
    Kind("diskRead", "Disk read", "rate", "diskRead", why_not=_DISK),
    Kind("diskWritten", "Disk written", "rate", "diskWritten", why_not=_DISK),
    Kind("pids", "Processes and threads", "count", "pids"),
)
# Of a node, or of all together: what tasks use. The column of a kind with "each" is that of each GPU.
NODE_KINDS = (
    Kind("gpu", "GPUs busy", "percent", "util", "each", why_not=_GPU),
    Kind("gpuMemory", "GPU memory", "bytes", "memory", "each", why_not=_GPU),
    Kind("gpuPower", "GPU power", "watts", "power", "each", why_not=_GPU),
    Kind("gpuHeat", "GPU temperature", "degrees", "temperature", "each", why_not=_GPU),
    Kind("cpu", "CPU of tasks", "cores", "cpu"),
    Kind("memory", "Memory of tasks", "bytes", "memory"),
    Kind("tasks", "Running tasks", "count", "tasks"),
    Kind("networkIn", "Network in", "rate", "networkIn", why_not=_NETWORK),
    Kind("networkOut", "Network out", "rate", "networkOut", why_not=_NETWORK),
    Kind("diskRead", "Disk read", "rate", "diskRead", why_not=_DISK),
    Kind("diskWritten", "Disk written", "rate", "diskWritten", why_not=_DISK),
)
CLUSTER_KINDS = (
    Kind("gpu", "GPUs busy", "count", "gpusBusy", why_not=_GPU),
    Kind("gpuMemory", "GPU memory", "bytes", "gpuMemory", why_not=_GPU),
    Kind("gpuIdle", "GPUs held and not busy", "count", "gpusIdle", why_not=_GPU),
    *(kind for kind in NODE_KINDS if not kind.of_gpus),
)


def write(kind: Kind, value: float | None) -> str:
    return words.NOTHING if value is None or math.isnan(value) else UNITS[kind.unit].write(value)


def of(kind: Kind, gpu_ids: Sequence[str], columns: Mapping[str, float | None]) -> float | None:
    """The value of a task from those of its columns; None where nobody knows."""
    if not kind.of_gpus:
        return columns.get(kind.column)
    known = [one for id in gpu_ids if (one := columns.get(f"gpu{id}{kind.column}")) is not None]
    if not known:
        return None
    return sum(known) / len(known) if kind.of_gpus == "mean" else sum(known)


def top_of(kind: Kind, values: Sequence[float], asked: float | None = None) -> float:
    """A round number at or above all values, and above what was asked for."""
    if kind.unit == "percent":
        return 100.0
    most = max([*values, (asked or 0.0)], default=0.0) or float(UNITS[kind.unit].base > 1000) * 1024
    unit, base = 1.0, UNITS[kind.unit].base
    while base > 1000 and most >= 1000 * unit and unit < base**4:
        unit *= base
    return nice_top(most / unit) * unit
