"""Reads one answer of Docker's ``GET /containers/{id}/stats`` (API 1.41, ``one-shot``). Pure.

cgroup v1 and v2 name things differently. What the answer does not have is None, and never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from clusters.engines.measuring import Usage

_NEVER = "0001-"  # the time in the answer for a container that does not run


def usage_of(answer: Mapping[str, Any]) -> Usage | None:
    """The usage in one answer; None for a container that does not run. Raises TypeError, ValueError, LookupError or
    AttributeError for what is no such answer."""
    read = str(answer["read"])
    memory, cpu = answer["memory_stats"], answer["cpu_stats"]["cpu_usage"]["total_usage"]
    if read.startswith(_NEVER) or "usage" not in memory:
        return None
    pids = (answer.get("pids_stats") or {}).get("current")
    return Usage(
        at=_seconds(read),
        cpu=int(cpu) / 1e9,
        memory=_used(int(memory["usage"]), memory.get("stats") or {}),
        pids=None if pids is None else int(pids),
        shared=_shared(memory.get("stats") or {}),
        network=_network(answer.get("networks")),
        disk=_disk((answer.get("blkio_stats") or {}).get("io_service_bytes_recursive")),
    )


def _seconds(stamp: str) -> float:
    """Seconds since 1970 of a stamp such as ``2026-11-22T08:49:24.310546729Z``."""
    whole, _, rest = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + (float(f"0.{rest}") if rest else 0.0)


def _used(usage: int, stats: Mapping[str, Any]) -> int:
    """As the docker command counts it: without inactive files in the cache (cgroup v1, then v2)."""
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
    """Of all interfaces; a container on the host's network has none of its own."""
    if not networks:
        return None
    return sum(int(one["rx_bytes"]) for one in networks.values()), sum(
        int(one["tx_bytes"]) for one in networks.values()
    )


def _disk(rows: list[Mapping[str, Any]] | None) -> tuple[int, int] | None:
    """Of all disks. Without a row nothing was read or written yet, or the kernel does not count it."""
    if not rows:
        return None
    sums = {"read": 0, "write": 0}
    for row in rows:
        what = str(row["op"]).lower()
        if what in sums:
            sums[what] += int(row["value"])
    return sums["read"], sums["write"]
