"""What the fake engine tells of its hosts: those that a test puts there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clusters.engines.inventory import Fitness, HostReport, Inventory
from clusters.engines.runtime import LABEL_TASK
from tests.fakes.meter import FakeMeter


class FakeInventory(FakeMeter):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hosts: dict[str, HostReport] = {}
        self.fit = Fitness("1.20.2")
        self.sees_others = True
        self._told: dict[str, HostReport] = {}  # of the last inventory

    def add_host(self, name: str, **what: Any) -> HostReport:
        """A host with 8 cores, 16 GB and two GPUs, where ``what`` says nothing else."""
        plain = HostReport(name, "10.0.0.1", 8, 16384, (("0", "A100"), ("1", "A100")), version="1.20.2")
        with self._changed:
            self.hosts[name] = replace(plain, **what)
            self._changed.notify_all()
            return self.hosts[name]

    def remove_host(self, name: str) -> None:
        with self._changed:
            del self.hosts[name]
            self._changed.notify_all()

    def fitness(self, network: str) -> Fitness:
        with self._changed:
            self._enter("fitness")
            return self.fit

    def inventory(self, selector: Mapping[str, str], instance: str) -> Inventory:
        with self._changed:
            self._enter("inventory")
            hosts = (host for host in self.hosts.values() if selector.items() <= host.labels.items())
            self._told = dict(self.hosts)
            return Inventory(self.fit.version, tuple(hosts), self.sees_others)

    def forget(self, container: str) -> None:
        with self._changed:
            self._enter("forget")
            if (found := self._containers.get(container)) and LABEL_TASK in found.status.labels:
                del self._containers[container]
                self._event()

    def wait_change(self, timeout: float) -> None:
        with self._changed:
            self._enter("wait_change")
            self._changed.wait_for(lambda: self.hosts != self._told or not self._reachable, timeout)
