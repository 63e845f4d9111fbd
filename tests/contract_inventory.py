"""What every engine with many hosts must tell of them. Run on the fake by tests/integration, on a real cluster by
tests/kubernetes."""

from __future__ import annotations

import threading
from typing import Protocol

import pytest

from clusters.engines.inventory import HostReport, Inventoried
from clusters.engines.runtime import RuntimeFault
from tests.helpers import until


class InventoryLab(Protocol):
    """A cluster of the hosts n1 and n2, of which n2 has the label ``bed/node`` n2."""

    inventory: Inventoried
    nowhere: Inventoried  # of a cluster that does not answer

    def close(self, host: str) -> None:
        """Nothing new may start there."""
        ...

    def open(self, host: str) -> None: ...

    def occupy(self, host: str) -> None:
        """Somebody else takes a core, 100 MB and a GPU."""
        ...

    def vacate(self, host: str) -> None: ...

    def silence(self, host: str) -> None: ...

    def revive(self, host: str) -> None: ...

    def run(self, name: str) -> None:
        """A container of ours, on any host."""
        ...

    def runs(self, name: str) -> bool:
        """Whether the cluster still knows it."""
        ...


def host(lab: InventoryLab, name: str) -> HostReport:
    return next(host for host in lab.inventory.inventory({}, "me").hosts if host.name == name)


def taken_by_others(lab: InventoryLab) -> list[tuple[int, int, int]]:
    """Cores, MB and GPUs of each host, in one look."""
    hosts = lab.inventory.inventory({}, "me").hosts
    return [(host.others_cpus, host.others_memory_mb, host.others_gpus) for host in hosts]


class InventoryContract:
    def test_it_lacks_nothing_and_has_two_hosts_with_two_gpus_each(self, inventory_lab: InventoryLab) -> None:
        fitness = inventory_lab.inventory.fitness("host")
        assert (fitness.lacks, fitness.hints) == ((), ()) and fitness.version
        found = inventory_lab.inventory.inventory({}, "me")
        assert [host.name for host in found.hosts] == ["n1", "n2"] and found.sees_others
        for one in found.hosts:
            assert one.cpus >= 1 and one.memory_mb >= 1000 and one.address and one.version
            assert [id for id, _ in one.gpus] == ["0", "1"]
            assert not one.closed and not one.silent

    def test_labels_choose(self, inventory_lab: InventoryLab) -> None:
        chosen = inventory_lab.inventory.inventory({"bed/node": "n2"}, "me")
        assert [host.name for host in chosen.hosts] == ["n2"]
        assert inventory_lab.inventory.inventory({"bed/node": "n3"}, "me").hosts == ()

    def test_what_others_take_is_counted_and_given_back(self, inventory_lab: InventoryLab) -> None:
        inventory_lab.occupy("n1")
        try:
            until(lambda: taken_by_others(inventory_lab) == [(1, 100, 1), (0, 0, 0)], 60)
        finally:
            inventory_lab.vacate("n1")
        until(lambda: taken_by_others(inventory_lab) == [(0, 0, 0), (0, 0, 0)], 60)

    def test_a_change_ends_the_wait_and_is_seen(self, inventory_lab: InventoryLab) -> None:
        assert not host(inventory_lab, "n1").closed
        began = threading.Timer(0.3, inventory_lab.close, ["n1"])
        began.start()
        try:
            inventory_lab.inventory.wait_change(60)
            until(lambda: host(inventory_lab, "n1").closed, 30)
        finally:
            began.join()
            inventory_lab.open("n1")
        until(lambda: not host(inventory_lab, "n1").closed, 30)

    def test_a_wait_without_a_change_ends_by_itself(self, inventory_lab: InventoryLab) -> None:
        host(inventory_lab, "n1")
        inventory_lab.inventory.wait_change(1)

    def test_a_dead_host_is_silent_until_it_is_back(self, inventory_lab: InventoryLab) -> None:
        inventory_lab.silence("n2")
        try:
            until(lambda: host(inventory_lab, "n2").silent, 180)
            assert not host(inventory_lab, "n1").silent
        finally:
            inventory_lab.revive("n2")
        until(lambda: not host(inventory_lab, "n2").silent, 60)

    def test_it_forgets_a_container_without_asking_its_host(self, inventory_lab: InventoryLab) -> None:
        inventory_lab.run("forgotten")
        for _ in range(2):
            inventory_lab.inventory.forget("forgotten")
            assert not inventory_lab.runs("forgotten")

    def test_a_cluster_that_does_not_answer_is_a_fault(self, inventory_lab: InventoryLab) -> None:
        for ask in (lambda: inventory_lab.nowhere.fitness("host"), lambda: inventory_lab.nowhere.inventory({}, "me")):
            with pytest.raises(RuntimeFault):
                ask()
