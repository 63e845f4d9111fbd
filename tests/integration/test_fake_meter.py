"""What the fake engine measures: the contract."""

from __future__ import annotations

import itertools

import pytest

from clusters.engines.runtime import LABEL_TASK, ContainerRequest
from tests.contract_meter import MeterContract
from tests.fakes.runtime import FakeRuntime

IMAGE = "team/image:1"


class FakeMeterLab:
    def __init__(self) -> None:
        self.runtime = self.meter = FakeRuntime(images=frozenset({IMAGE}))
        self.cut, self.heal = self.runtime.cut, self.runtime.heal
        self._numbers = itertools.count(1)

    def busy(self, *, network: str = "host") -> ContainerRequest:
        labels = {LABEL_TASK: str(number := next(self._numbers))}
        return ContainerRequest(f"c{number}", IMAGE, ("sh",), labels=labels, network=network)  # type: ignore[arg-type]

    def program(self, name: str, output: str) -> tuple[str, ...]:
        self.runtime.programs["tell"] = output
        return ("tell",)


@pytest.fixture
def meter_lab() -> FakeMeterLab:
    return FakeMeterLab()


class TestContract(MeterContract):
    pass
