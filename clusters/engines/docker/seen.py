"""Decides which containers of an engine's list are inspected one by one. Pure.

The list says little (no exit code), and it may be wrong: an engine that cannot write to its disk while a container ends
goes on listing it as running, and only an inspection shows the end (Docker 20.10). So running containers are inspected
again now and then, a few in each list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clusters.engines.docker.status import held_in, listed_phase
from clusters.engines.runtime import LOOK_CLOSER, ContainerStatus, Phase

DOUBTED = 2.0  # seconds after which a running one is inspected anew when somebody doubts the list
MOST = 50  # inspections of running ones in one list: about 1 ms each, over SSH 10


@dataclass(frozen=True, slots=True)
class Seen:
    status: ContainerStatus
    at: float  # when it was inspected


def has_news(seen: Seen | None, row: Mapping[str, Any]) -> bool:
    """Whether the row of the list has something that the last inspection did not."""
    if seen is None or seen.status.phase is Phase.CREATED:
        return True
    return listed_phase(row) is not seen.status.phase or (held_in(row) and not seen.status.held)


def due(seen: Iterable[Seen], now: float, *, doubted: bool) -> list[str]:
    """The ids of running containers to inspect again, the longest waiting first."""
    wait = DOUBTED if doubted else LOOK_CLOSER
    running = [one for one in seen if one.status.phase is Phase.RUNNING and now - one.at >= wait]
    return [one.status.id for one in sorted(running, key=lambda one: one.at)[:MOST]]
