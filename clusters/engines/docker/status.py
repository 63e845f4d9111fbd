"""Reads what an engine reports, and decides which containers of its list are inspected one by one. Pure.

The list says little (no exit code), and it may be wrong: an engine that cannot write to its disk while a container ends
goes on listing it as running, and only an inspection shows the end (Docker 20.10). So running containers are inspected
again now and then, a few in each list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clusters.engines.logs.stamps import moment
from clusters.engines.runtime import LABEL_HOLD, LOOK_CLOSER, ContainerStatus, DiskUse, EngineInfo, Phase

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kMGTP]?)B")  # as Docker writes one, by thousands
RUNNING = frozenset({"running", "paused", "restarting"})
# Docker says 255 of a container that was lost with its host; the start script has a code of its own (OWN_CODES) for a
# command's own 255. It says KILLED_FOR_MEMORY because Docker often misses that of a container that ends at once (4 of
# 48, Docker 20.10).
LOST_WITH_HOST = 255
MOST_CPUS, MOST_MEMORY_MB = 65_536, 2**31 - 1  # as many as a node may be declared to have
DOUBTED = 2.0  # seconds after which a running one is inspected anew when somebody doubts the list
MOST = 50  # inspections of running ones in one list: about 1 ms each, over SSH 10
LONGEST_NAME, LONGEST_VERSION = 100, 40  # letters


def engine_info(answer: Mapping[str, Any], *, kubelet: bool) -> EngineInfo:
    """Raises what an answer of another shape raises, and ValueError for sizes and names that no machine has."""
    swarm = (answer.get("Swarm") or {}).get("LocalNodeState", "inactive")
    cpus, memory_mb = int(answer["NCPU"]), int(answer["MemTotal"]) >> 20
    if not (0 < cpus <= MOST_CPUS and 0 < memory_mb <= MOST_MEMORY_MB):
        raise ValueError(f"{cpus} cores, {memory_mb} MB")
    return EngineInfo(
        engine_id=_name(answer["ID"]),
        hostname=_name(answer["Name"]),
        version=_name(answer["ServerVersion"])[:LONGEST_VERSION],
        cpus=cpus,
        memory_mb=memory_mb,
        swarm_worker=swarm in ("active", "locked"),
        kubelet=kubelet,
    )


def _name(value: Any) -> str:
    text = str(value)
    if not text.isprintable() or len(text) > LONGEST_NAME:
        raise ValueError("it has a name that is none")
    return text


def disk_in(info: Mapping[str, Any]) -> DiskUse | None:
    """What the storage driver says of its disk (devicemapper does); None where it says nothing."""
    told = {str(line[0]): str(line[1]) for line in info.get("DriverStatus") or () if len(line) == 2}
    used, total = (_bytes(told.get(f"Data Space {what}", "")) for what in ("Used", "Total"))
    return DiskUse(used, total) if used is not None and total else None


def disk_of(answer: Mapping[str, Any]) -> DiskUse:
    """The sum of an answer of ``/system/df``: layers that images share are there once, and containers are what they
    have written."""
    containers = sum(int(container.get("SizeRw") or 0) for container in answer.get("Containers") or ())
    return DiskUse(int(answer.get("LayersSize") or 0) + containers)


def _bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    return round(float(match[1]) * 1000 ** " kMGTP".index(match[2] or " ")) if match else None


def listed_phase(row: Mapping[str, Any]) -> Phase:
    """Return the phase in a row of the engine's list. What is being removed counts as ended there, also if it never
    ran: only an inspection shows which."""
    state = str(row["State"])
    if state == "created":
        return Phase.CREATED
    return Phase.RUNNING if state in RUNNING else Phase.EXITED


def held_in(row: Mapping[str, Any]) -> bool:
    """Whether a row of the engine's list is held. Images may have health checks of their own."""
    return bool((row.get("Labels") or {}).get(LABEL_HOLD)) and "(unhealthy)" in str(row.get("Status", ""))


def paused_in(row: Mapping[str, Any]) -> bool:
    return str(row["State"]) == "paused"


def inspected(answer: Mapping[str, Any]) -> ContainerStatus:
    state = answer["State"]
    phase = _phase(state)
    ended = phase is Phase.EXITED
    code = int(state["ExitCode"]) if ended else None
    lost = code == LOST_WITH_HOST
    labels = dict(answer["Config"]["Labels"] or {})
    began = moment(str(state["StartedAt"]))
    held = bool(labels.get(LABEL_HOLD)) and not ended and (state.get("Health") or {}).get("Status") == "unhealthy"
    return ContainerStatus(
        id=str(answer["Id"]),
        name=str(answer["Name"]).lstrip("/"),
        phase=phase,
        labels=labels,
        exit_code=None if lost else code,
        lost=lost,
        oom_killed=bool(state["OOMKilled"]),
        error=str(state["Error"]),
        started_at=began,
        finished_at=_finished(state, began) if ended else None,
        paused=str(state["Status"]) == "paused",
        held=held,
        held_code=_held_code(state["Health"]) if held else None,
    )


def _finished(state: Mapping[str, Any], began: datetime | None) -> datetime | None:
    """An engine stamps the start once its runtime has returned: a program that ended before has ended then."""
    at = moment(str(state["FinishedAt"]))
    return max(at, began) if at and began else at


def _phase(state: Mapping[str, Any]) -> Phase:
    """A start that is refused leaves an error and the code 128 in a container whose process never ran, and its removal
    makes it `removing` or `dead` (Docker 20.10). Only what has run has ended."""
    if str(state["Status"]) in RUNNING:
        return Phase.RUNNING
    return Phase.EXITED if moment(str(state["StartedAt"])) else Phase.CREATED


def _held_code(health: Mapping[str, Any]) -> int | None:
    """The code that the health check printed last."""
    said = str((health.get("Log") or [{}])[-1].get("Output", "")).strip()
    return int(said) if re.fullmatch(r"\d{1,3}", said) else None


@dataclass(frozen=True, slots=True)
class LastSeen:
    status: ContainerStatus
    at: float  # when it was inspected


def unread(row: Mapping[str, Any]) -> LastSeen:
    """What a row of the list alone says of a container. One that has ended counts as not begun: how it ended is not
    known yet."""
    status = ContainerStatus(
        id=str(row["Id"]),
        name=str((row.get("Names") or [row["Id"]])[0]).lstrip("/"),
        phase=Phase.RUNNING if listed_phase(row) is Phase.RUNNING else Phase.CREATED,
        labels=dict(row["Labels"] or {}),
        paused=paused_in(row),
    )
    return LastSeen(status, 0.0)


def has_news(seen: LastSeen | None, row: Mapping[str, Any]) -> bool:
    """Whether the row of the list has something that the last inspection did not."""
    if seen is None or seen.status.phase is Phase.CREATED:
        return True
    has_turned = listed_phase(row) is not seen.status.phase or paused_in(row) is not seen.status.paused
    return has_turned or (held_in(row) and not seen.status.held)


def due(seen: Iterable[LastSeen], now: float, *, doubted: bool) -> list[str]:
    """The ids of running containers to inspect again, the longest waiting first."""
    wait = DOUBTED if doubted else LOOK_CLOSER
    running = [one for one in seen if one.status.phase is Phase.RUNNING and now - one.at >= wait]
    return [one.status.id for one in sorted(running, key=lambda one: one.at)[:MOST]]
