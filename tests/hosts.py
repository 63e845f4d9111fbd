"""Engines in memory in place of all real ones, by endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.engines.runtime import FaultReason, RuntimeFault
from tests.fakes.runtime import FakeRuntime


class Hosts(dict[str, FakeRuntime]):
    """The engines that can be reached, by endpoint; each is made with the endpoint as its id."""

    def add(self, endpoint: str, **options: Any) -> FakeRuntime:
        self[endpoint] = FakeRuntime(hostname=endpoint, **options)
        return self[endpoint]

    def connect(self, endpoint: str, tls_dir: Path | None) -> FakeRuntime:
        if endpoint not in self:
            raise RuntimeFault(f"Nothing listens at {endpoint}.", reason=FaultReason.UNREACHABLE)
        return self[endpoint]
