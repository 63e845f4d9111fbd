"""The fake engine as a cluster."""

from __future__ import annotations

import pytest

from clusters.engines.runtime import LABEL_TASK, ContainerRequest
from tests.contract_inventory import InventoryContract
from tests.fakes.runtime import FakeRuntime


class FakeLab:
    def __init__(self) -> None:
        self.inventory, self.nowhere = FakeRuntime(hostname="lab"), FakeRuntime(hostname="nowhere")
        self.nowhere.cut()
        for name in ("n1", "n2"):
            self.revive(name)

    def close(self, host: str) -> None:
        self.inventory.add_host(host, closed="cordoned in Kubernetes")

    def occupy(self, host: str) -> None:
        self.inventory.add_host(host, others_cpus=1, others_memory_mb=100, others_gpus=1)

    def silence(self, host: str) -> None:
        self.inventory.add_host(host, silent=True)

    def revive(self, host: str) -> None:
        self.inventory.add_host(host, labels={"bed/node": host})

    open = vacate = revive

    def run(self, name: str) -> None:
        self.inventory.ensure(ContainerRequest(name, "i", ("x",), labels={LABEL_TASK: "1"}))

    def runs(self, name: str) -> bool:
        return any(status.name == name for status in self.inventory.list())


@pytest.fixture
def inventory_lab() -> FakeLab:
    return FakeLab()


class TestFakeInventory(InventoryContract):
    pass
