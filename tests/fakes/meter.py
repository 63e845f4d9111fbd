"""What the fake engine measures: each running container uses a constant ``Load``, and none unless a test says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from clusters.engines.measuring import ContainerUsage
from clusters.engines.runtime import Phase
from tests.fakes.host import FakeHost


@dataclass(frozen=True, slots=True)
class Load:
    """What a container uses: CPU in cores, memory in bytes, the others in bytes a second."""

    cpu: float = 0.5
    memory: int = 64 << 20
    pids: int = 1
    shared: int = 0
    network: tuple[float, float] = (0.0, 0.0)
    disk: tuple[float, float] = (0.0, 0.0)


class FakeMeter(FakeHost):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.loads: dict[str, Load] = {}  # by the container's name
        self.programs: dict[str, str] = {}  # what programs in containers write, by their name

    def usage(self, names: Sequence[str], seconds: float) -> dict[str, ContainerUsage]:
        with self._changed:
            self._enter("usage")
            return {name: self._usage(name) for name in names if self._runs(name)}

    def output(self, name: str, argv: Sequence[str], seconds: float) -> str:
        with self._changed:
            self._enter("output")
            return self.programs.get(argv[0], "") if self._runs(name) else ""

    def _runs(self, name: str) -> bool:
        return name in self._containers and self._containers[name].status.phase is Phase.RUNNING

    def _usage(self, name: str) -> ContainerUsage:
        container, load = self._containers[name], self.loads.get(name, Load())
        now = datetime.now(UTC)
        seconds = (now - (container.status.started_at or now)).total_seconds()
        is_own = container.request.network == "bridge"
        return ContainerUsage(
            at=now.timestamp(),
            cpu=load.cpu * seconds,
            memory=load.memory,
            pids=load.pids,
            shared=load.shared,
            network=(int(load.network[0] * seconds), int(load.network[1] * seconds)) if is_own else None,
            disk=(int(load.disk[0] * seconds), int(load.disk[1] * seconds)),
        )
