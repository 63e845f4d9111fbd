"""Reads one answer of Docker's ``GET /containers/{id}/stats`` (API 1.41, ``one-shot``). Pure.

cgroup v1 and v2 name things differently. What the answer does not have is None, and never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.engines.logs.stamps import SECOND, nanoseconds
from clusters.engines.measuring import ContainerUsage

_NEVER = "0001-"  # the time in the answer for a container that does not run


def usage_of(answer: Mapping[str, Any]) -> ContainerUsage | None:
    """The usage in one answer; None for a container that does not run. Raises TypeError, ValueError, LookupError or
    AttributeError for what is no such answer."""
    read = str(answer["read"])
    memory, cpu = answer["memory_stats"], answer["cpu_stats"]["cpu_usage"]["total_usage"]
    if read.startswith(_NEVER) or "usage" not in memory:
        return None
    pids = (answer.get("pids_stats") or {}).get("current")
    return ContainerUsage(
        at=nanoseconds(read) / SECOND,
        cpu=int(cpu) / 1e9,
        memory=_used(int(memory["usage"]), memory.get("stats") or {}),
        pids=None if pids is None else int(pids),
        shared=_shared(memory.get("stats") or {}),
        network=_network(answer.get("networks")),
        disk=_disk((answer.get("blkio_stats") or {}).get("io_service_bytes_recursive")),
    )


def _used(usage: int, stats: Mapping[str, Any]) -> int:
    """It is counted as the docker command does: without inactive files in the cache (cgroup v1, then v2)."""
    inactive = int(stats.get("total_inactive_file", stats.get("inactive_file", 0)))
    return usage - inactive if inactive < usage else usage


def _shared(stats: Mapping[str, Any]) -> int | None:
    """cgroup v2 counts it. Under v1 it is the part of the cache that is on neither list of files."""
    if "shmem" in stats:
        return int(stats["shmem"])
    if "total_cache" not in stats:
        return None
    files = int(stats.get("total_active_file", 0)) + int(stats.get("total_inactive_file", 0))
    return max(0, int(stats["total_cache"]) - files)


def _network(networks: Mapping[str, Mapping[str, Any]] | None) -> tuple[int, int] | None:
    """The bytes of all interfaces are added; a container on the host's network has none of its own."""
    if not networks:
        return None
    received, sent = (sum(int(each[name]) for each in networks.values()) for name in ("rx_bytes", "tx_bytes"))
    return received, sent


def _disk(rows: list[Mapping[str, Any]] | None) -> tuple[int, int] | None:
    """The bytes of all disks are added. Without a row nothing was read or written, or the kernel does not count it."""
    if not rows:
        return None
    sums = {"read": 0, "write": 0}
    for row in rows:
        what = str(row["op"]).lower()
        if what in sums:
            sums[what] += int(row["value"])
    return sums["read"], sums["write"]
