"""Reads what GPUs do from the text of an exporter or of ``nvidia-smi``. Pure.

Known are the metrics of NVIDIA's DCGM exporter, of nvidia_gpu_exporter (``nvidia_smi_…``) and of the older
nvidia_gpu_prometheus_exporter (``nvidia_gpu_…``). Nothing is made up: what a text does not say is a NaN, and a GPU
about which it says nothing is not in the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from jobs.metrics.layout import NAN

MOST = 1024  # GPUs of one node
_MIB = 2.0**20
# metric -> (field, factor). Of several that give the same field the first one in this table holds.
_METRICS = {
    "DCGM_FI_DEV_GPU_UTIL": ("util", 1.0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("util", 100.0),  # where the one above is not served
    "DCGM_FI_DEV_FB_USED": ("memory", _MIB),
    "DCGM_FI_DEV_FB_TOTAL": ("total", _MIB),
    "DCGM_FI_DEV_FB_FREE": ("free", _MIB),
    "DCGM_FI_DEV_POWER_USAGE": ("power", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature", 1.0),
    "nvidia_smi_utilization_gpu_ratio": ("util", 100.0),
    "nvidia_smi_memory_used_bytes": ("memory", 1.0),
    "nvidia_smi_memory_total_bytes": ("total", 1.0),
    "nvidia_smi_power_draw_watts": ("power", 1.0),
    "nvidia_smi_temperature_gpu": ("temperature", 1.0),
    "nvidia_smi_index": ("index", 1.0),
    "nvidia_gpu_duty_cycle": ("util", 1.0),
    "nvidia_gpu_memory_used_bytes": ("memory", 1.0),
    "nvidia_gpu_memory_total_bytes": ("total", 1.0),
    "nvidia_gpu_power_usage_milliwatts": ("power", 0.001),
    "nvidia_gpu_temperature_celsius": ("temperature", 1.0),
}
# Greater ones are the words of a library for "no value".
_LARGEST = {"util": 100.0, "memory": 1e15, "total": 1e15, "free": 1e15, "power": 1e5, "temperature": 1e3, "index": 1e6}
QUERY = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total", "power.draw", "temperature.gpu")
SMI = ("nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits")


@dataclass(frozen=True, slots=True)
class GpuUse:
    """``util`` in percent, memory in bytes, power in watts, temperature in degrees Celsius."""

    util: float = NAN
    memory: float = NAN
    total: float = NAN
    power: float = NAN
    temperature: float = NAN

    def values(self) -> tuple[float, ...]:
        return self.util, self.memory, self.total, self.power, self.temperature


FIELDS = tuple(field.name for field in fields(GpuUse))


def of_exporter(text: str) -> dict[str, GpuUse]:
    """What GPUs do by number ("0") and by UUID, each where the text has it. Raises ValueError for what is no text of
    an exporter."""
    lines = "\n".join(line for line in text.splitlines() if line.partition("{")[0].split(" ")[0] in _METRICS)
    samples: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(lines + "\n"):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample)
    known_of: dict[str, dict[str, float]] = {}
    numbers: dict[str, str] = {}
    for name, (field, factor) in _METRICS.items():
        for sample in samples.get(name, ()):
            number, uuid = _names(sample.labels)
            value = sample.value * factor
            if not (number or uuid) or sample.labels.get("GPU_I_ID") or not 0 <= value <= _LARGEST[field]:
                continue  # a slice of a GPU is not the GPU
            key = uuid or number
            numbers[key] = str(int(value)) if field == "index" else number or numbers.get(key, "")
            known_of.setdefault(key, {}).setdefault(field, value)
    return _by_names({key: _use(values) for key, values in list(known_of.items())[:MOST]}, numbers)


def of_smi(text: str, ids: Sequence[str]) -> dict[str, GpuUse]:
    """What those of the ``ids`` of a task do that the text tells of: it is what SMI writes in its container, a line for
    each GPU. A container numbers its GPUs from 0 in the order of the node; a UUID is the same everywhere."""
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines()[:MOST]]
    uses = [(row[1], _of_row(row[2:])) for row in rows if len(row) == len(QUERY)]
    by_uuid = dict(uses)
    if all(id.isdecimal() for id in ids):
        return (
            {id: use for id, (_, use) in zip(sorted(ids, key=int), uses, strict=True)} if len(ids) == len(uses) else {}
        )
    return {id: by_uuid[id] for id in ids if id in by_uuid}


def total(values: Iterable[float]) -> float:
    """The sum of those that are known; a NaN of none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) if known else NAN


def _names(labels: Mapping[str, str]) -> tuple[str, str]:
    """The number and the UUID of the GPU a sample is about, each "" where it is not said."""
    uuid = labels.get("UUID") or labels.get("uuid") or ""
    if uuid and not uuid.startswith(("GPU-", "MIG-")):
        uuid = f"GPU-{uuid}"
    return labels.get("gpu") or labels.get("minor_number") or "", uuid


def _use(values: Mapping[str, float]) -> GpuUse:
    known = {field: values[field] for field in FIELDS if field in values}
    if "total" not in known and "memory" in known and "free" in values:
        known["total"] = known["memory"] + values["free"]
    return GpuUse(**known)


def _by_names(uses: Mapping[str, GpuUse], numbers: Mapping[str, str]) -> dict[str, GpuUse]:
    known = {key: use for key, use in uses.items() if use != GpuUse() and not all(map(math.isnan, use.values()))}
    return {**known, **{numbers[key]: use for key, use in known.items() if numbers[key]}}


def _of_row(parts: Sequence[str]) -> GpuUse:
    util, memory, whole, power, temperature = map(_number, parts)
    return GpuUse(util if util <= 100 else NAN, memory * _MIB, whole * _MIB, power, temperature)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:  # [N/A], [Not Supported]
        return NAN
    return value if 0 <= value < 1e9 else NAN
