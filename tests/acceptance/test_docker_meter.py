"""Real engines are measured by every way in, and one that hangs costs nobody more than its own samples."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from clusters.engines.docker.meter import WIDE, DockerMeter
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.runtime import ContainerRequest, RuntimeFault
from tests.acceptance.docker_lab import DockerLab, runtime_at
from tests.bed.docker_bed import BedNode
from tests.contract_meter import MeterContract
from tests.contract_runtime import FOREVER, request
from tests.helpers import LIMIT, quick

BUSY = "while :; do :; done"


class DockerMeterLab:
    def __init__(self, lab: DockerLab, engine: BedNode, way: str) -> None:
        self._lab, self._engine = lab, engine
        self.runtime: DockerRuntime = lab.runtime
        folder = {"unix": None, "tls": engine.tls_dir, "ssh": engine.ssh_dir}[way]
        self.meter = DockerMeter(getattr(engine, way), folder)

    def busy(self, *, network: str = "host") -> ContainerRequest:
        return request(self._lab, FOREVER, argv=("sh", "-c", BUSY), network=network)

    def program(self, name: str, output: str) -> tuple[str, ...]:
        return ("printf", "%s", output)

    def cut(self) -> None:
        self._engine.fault("freeze")

    def heal(self) -> None:
        self._engine.fault("thaw")


@pytest.fixture
def meter_lab(way: str, docker_nodes: list[BedNode], sample_image: str, unhurried: None) -> Iterator[DockerMeterLab]:
    engine = docker_nodes[1]
    lab = DockerLab(runtime_at(engine, "unix"), engine)
    found = DockerMeterLab(lab, engine, way)
    yield found
    found.heal()
    lab.clear()


@pytest.mark.parametrize("way", ["unix"])
class TestContract(MeterContract):
    pass


@pytest.mark.parametrize("way", ["tls", "ssh"])
class TestFarWays:
    """Of the contract, what hangs on the way to the engine."""

    test_it_measures_a_container_that_runs = MeterContract.test_it_measures_a_container_that_runs
    test_it_runs_a_program_and_gives_its_output = MeterContract.test_it_runs_a_program_and_gives_its_output
    test_an_engine_that_cannot_be_reached_says_so_and_is_measured_again_later = (
        MeterContract.test_an_engine_that_cannot_be_reached_says_so_and_is_measured_again_later
    )


def test_many_containers_are_asked_together(
    docker_engine: BedNode, sample_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine answers once a second whatever it was asked until then."""
    now = most = asked_for = 0
    lab = DockerLab(DockerRuntime(docker_engine.unix), docker_engine)
    try:
        asked = [request(lab, FOREVER) for _ in range(20)]
        for one in asked:
            lab.runtime.ensure(one)
        names, found = [one.name for one in asked], DockerMeter(docker_engine.unix)
        ask = found._ask

        async def counted(path: str) -> tuple[int, bytes]:
            nonlocal now, most, asked_for
            now, asked_for = now + 1, asked_for + 1
            most = max(most, now)
            try:
                return await ask(path)
            finally:
                now -= 1

        found.usage(names, LIMIT)
        monkeypatch.setattr(found, "_ask", counted)
        used = time.thread_time()
        with quick(15, "20 containers, which take 20 s one after the other"):
            assert found.usage(names, LIMIT).keys() == set(names)
        assert (most, asked_for) == (WIDE, 20)
        assert time.thread_time() - used < 1, "20 containers, 10 ms of CPU each where nobody else is"
    finally:
        lab.clear()


def test_a_program_that_does_not_end_is_not_waited_for(docker_engine: BedNode, sample_image: str) -> None:
    lab = DockerLab(DockerRuntime(docker_engine.unix), docker_engine)
    try:
        asked = request(lab, FOREVER)
        lab.runtime.ensure(asked)
        found = DockerMeter(docker_engine.unix)
        with pytest.raises(RuntimeFault):
            found.output(asked.name, ("sleep", "60"), 0.5)
        assert found.usage([asked.name], LIMIT), "the others go on"
        assert len(found.output(asked.name, ("head", "-c", "1000000", "/dev/zero"), LIMIT)) <= 1 << 16
    finally:
        lab.clear()


def test_where_nothing_listens_it_says_so() -> None:
    with pytest.raises(RuntimeFault, match="No such file"):
        DockerMeter("unix:///nowhere/docker.sock").usage(["a"], 1)
    with pytest.raises(RuntimeFault, match="needs TLS keys"):
        DockerMeter("tcp://192.0.2.1:2376").usage(["a"], 1)
