"""Real engines for the tests of this folder, private to the session: the machine's own Docker is never touched."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.sample_image import SAMPLE_IMAGE, ensure_sample_image
from tests.acceptance.portal import Portal, portal_of_files, portal_on
from tests.bed.docker_bed import Bed, BedNode, missing
from tests.bed.hdfs_bed import HdfsBed
from tests.bed.registry import Registry
from tests.bed.s3_bed import S3Bed
from tests.helpers import LIMIT, need

# What an engine is given for what takes a moment, in seconds: of clusters.engines.docker.
_MOMENTS = (
    "attach.dial.CONNECT",
    "attach.dial.QUICK",
    "attach.execs.QUICK",
    "attach.program.DockerTerminals.patience",
    "connect.CONNECT",
    "events.QUICK",
    "ports.CONNECT",
    "ports._OPENING",
    "runtime.CLOSER",
    "runtime.CONNECT",
    "runtime.CREATE",
    "ssh.CONNECT",
)


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    """Hosts with a dockerd each; ``bed.up(n)`` starts more of them."""
    if reason := missing():
        if "docker" in os.environ.get("LONGSHORE_REQUIRE", "").split(","):
            pytest.fail(f"LONGSHORE_REQUIRE asks for docker: {reason}")
        pytest.skip(reason)
    bed = Bed()
    try:
        yield bed
    finally:
        bed.down()


@pytest.fixture(scope="session")
def docker_engine(bed: Bed) -> BedNode:
    """The engine for tests that need one and do it no harm. ``docker_engine.unix`` is its endpoint."""
    return bed.up(1)[0]


@pytest.fixture(scope="session")
def sample_image(docker_engine: BedNode) -> str:
    """The name of the sample image, which ``docker_engine`` then has."""
    ensure_sample_image(DockerRuntime(docker_engine.unix))
    return SAMPLE_IMAGE


@pytest.fixture(scope="session")
def docker_nodes(bed: Bed, docker_engine: BedNode) -> list[BedNode]:
    """Three more hosts with four pretended GPUs each and the sample image, to cut, crash and freeze: whoever does that
    heals them. ``docker_engine`` comes first, since it has no GPUs."""
    nodes = bed.up(4, BED_GPU="4")[1:]
    for node in nodes:
        ensure_sample_image(DockerRuntime(node.unix))
    return nodes


@pytest.fixture(scope="session")
def shared_portal(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """A portal on ``docker_engine`` for files that need no setting of their own: its start takes five processes. Each
    file leaves it without jobs that run (tests.lanes lets these files run in one session)."""
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine) as one:
        yield one


@pytest.fixture(scope="session")
def files_portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """A portal without an engine, for files that need its store, a folder, and no setting of their own."""
    with portal_of_files(tmp_path_factory.mktemp("portal")) as one:
        yield one


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what an engine answers and not of how soon: this process waits for it as long as the machine is
    busy."""
    for name in _MOMENTS:
        monkeypatch.setattr(f"clusters.engines.docker.{name}", LIMIT)
    monkeypatch.setattr("clusters.engines.exec_terminal.STARTING", LIMIT)
    monkeypatch.setattr("clusters.engines.docker.attach.program._PAUSES", (0.0, *[0.2] * int(5 * LIMIT)))


@pytest.fixture
def registry(bed: Bed) -> Iterator[Registry]:
    """An image registry that the nodes of the bed trust."""
    bed.up(1)
    registry = Registry(f"{bed.network}.1")
    try:
        yield registry
    finally:
        registry.close()


@pytest.fixture
def private_registry(bed: Bed) -> Iterator[Registry]:
    """The same, for those who know the password."""
    bed.up(1)
    registry = Registry(f"{bed.network}.1", 5001, password="secret")
    try:
        yield registry
    finally:
        registry.close()


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsBed]:
    """A real HDFS; whoever kills or freezes it heals it."""
    need("hdfs")
    bed = HdfsBed()
    try:
        yield bed
    finally:
        bed.close()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Bed]:
    """A real S3 server; whoever kills or freezes it heals it."""
    bed = S3Bed()
    try:
        yield bed
    finally:
        bed.close()
