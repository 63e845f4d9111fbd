"""What every engine must measure. Run on the fake by tests/integration, on a real engine by tests/acceptance."""

from __future__ import annotations

from typing import Protocol

import pytest

from clusters.engines.measuring import ContainerUsage, Measurable
from clusters.engines.runtime import ContainerRequest, ContainerRuntime, RuntimeFault
from tests.helpers import LIMIT, until


class MeterLab(Protocol):
    runtime: ContainerRuntime
    meter: Measurable

    def busy(self, *, network: str = "host") -> ContainerRequest: ...

    def program(self, name: str, output: str) -> tuple[str, ...]:
        """The argv of a program in that container that writes ``output``."""
        ...

    def cut(self) -> None: ...

    def heal(self) -> None: ...


def measured(lab: MeterLab, name: str) -> ContainerUsage:
    found = lab.meter.usage([name], LIMIT)
    assert list(found) == [name]
    return found[name]


class MeterContract:
    def test_it_measures_a_container_that_runs(self, meter_lab: MeterLab) -> None:
        asked = meter_lab.busy()
        meter_lab.runtime.ensure(asked)
        first = measured(meter_lab, asked.name)

        def busy() -> ContainerUsage | None:
            """With a core at most: between two looks close together, what an engine says and when may differ more."""
            later = measured(meter_lab, asked.name)
            return later if 0.1 < later.cpu - first.cpu < 2 * (later.at - first.at) else None

        later = until(busy, what="a core that is busy")
        assert later is not None
        assert 0 < later.memory <= asked.memory_mb << 20
        assert later.pids and later.pids >= 1

    def test_it_counts_the_network_where_the_container_has_its_own(self, meter_lab: MeterLab) -> None:
        asked = meter_lab.busy(network="bridge"), meter_lab.busy()
        for one in asked:
            meter_lab.runtime.ensure(one)
        own, shared = asked
        assert measured(meter_lab, own.name).network is not None
        assert measured(meter_lab, shared.name).network is None

    def test_it_leaves_out_what_does_not_run(self, meter_lab: MeterLab) -> None:
        asked, ended = meter_lab.busy(), meter_lab.busy()
        for one in (asked, ended):
            meter_lab.runtime.ensure(one)
        meter_lab.runtime.stop(ended.name, 0)
        names = ["longshore-contract-never-there", ended.name, asked.name]
        assert list(meter_lab.meter.usage(names, LIMIT)) == [asked.name]
        assert meter_lab.meter.usage([], LIMIT) == {}

    def test_it_runs_a_program_and_gives_its_output(self, meter_lab: MeterLab) -> None:
        asked = meter_lab.busy()
        meter_lab.runtime.ensure(asked)
        argv = meter_lab.program(asked.name, "0, GPU-aa, 97, 1, 2, 3, 4\n")
        assert meter_lab.meter.output(asked.name, argv, LIMIT) == "0, GPU-aa, 97, 1, 2, 3, 4\n"
        assert meter_lab.meter.output(asked.name, ("no-such-program",), LIMIT) == ""
        assert meter_lab.meter.output("longshore-contract-never-there", argv, LIMIT) == ""
        assert meter_lab.meter.usage([asked.name], LIMIT)

    def test_an_engine_that_cannot_be_reached_says_so_and_is_measured_again_later(self, meter_lab: MeterLab) -> None:
        asked = meter_lab.busy()
        meter_lab.runtime.ensure(asked)
        measured(meter_lab, asked.name)
        meter_lab.cut()
        with pytest.raises(RuntimeFault) as fault:
            meter_lab.meter.usage([asked.name], 2)
        assert fault.value.reason == "unreachable"
        meter_lab.heal()
        measured(meter_lab, asked.name)
