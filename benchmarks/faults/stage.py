"""A portal on a bed of three nodes with four pretended GPUs each, reached over TLS, SSH and a socket."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.report import wait_for
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.sample_image import ensure_sample_image
from tests.acceptance.portal import ENDS, Portal, config, containers
from tests.bed.docker_bed import Bed, BedNode
from tests.chaos.witness import PREAMBLE, Run, Witness

GPUS = 4
WAYS = ("tls", "ssh", "unix")
LOST_AFTER = 10  # seconds; the default is 60
LEASE = 6  # seconds; base.wakes.lease.PATIENCE, which only a process of the portal can import
SETTINGS = {"LONGSHORE_NODE_LOST_AFTER": str(LOST_AFTER)}
WORK = "[ $PAI_HOST_IP_main_0 != {} ] || sleep {}; leave 0"
EVERY = 0.05  # seconds between two questions
PATIENCE = 90.0  # seconds


@dataclass
class Stage:
    portal: Portal
    nodes: dict[str, BedNode]  # by way
    witness: Witness

    def submit(self, name: str, node: BedNode, seconds: int, gpus: int = GPUS) -> None:
        """A job that works for so long on this node, and is through at once on any other."""
        self.portal.submit(config(name, PREAMBLE + WORK.format(node.address, seconds), gpuNumber=gpus))

    def only(self, *ways: str) -> None:
        """New tasks go to these nodes alone."""
        for way, node in self.nodes.items():
            status = "active" if way in ways else "cordoned"
            answer = self.portal.http.put(f"/nodes/{node.name}/status", json={"nodeStatus": status})
            assert answer.status_code == 200, answer.text

    def runs(self, job: str, *, not_on: str = "") -> list[Run]:
        return [run for run in self.witness.of(job) if run.node != not_on]

    def wait_run(self, job: str, *, not_on: str = "") -> Run:
        wait_for(lambda: bool(self.runs(job, not_on=not_on)), PATIENCE, EVERY, f"{job} runs")
        return self.runs(job, not_on=not_on)[0]

    def wait_end(self, job: str) -> str:
        wait_for(lambda: self.portal.state(job) in ENDS, PATIENCE, EVERY, f"{job} has ended")
        return self.portal.state(job)

    def health(self, node: BedNode) -> str:
        return str(self.portal.node(node.name)["health"])

    def has_mark(self, node: BedNode) -> bool:
        return bool(self.portal.node(node.name)["marks"])

    def is_ok(self) -> bool:
        """What /healthz says of the portal's own parts."""
        return bool(httpx.get(f"{self.portal.url}/healthz", timeout=30).json()["status"] == "ok")

    def accepted(self, job: str) -> int:
        """How often the portal took a result of the job's task: an end that is not that of a lost node."""
        kinds = [(event["kind"], event["to"]) for event in self.portal.events(job)]
        return kinds.count(("task.state", "SUCCEEDED"))

    def gpus_taken(self) -> int:
        return sum(node["resourcesUsed"]["GPUs"] for node in self.portal.get("/nodes"))

    def left_on(self, node: BedNode) -> list[str]:
        return containers(node, self.portal)


@contextmanager
def stage() -> Iterator[Stage]:
    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="ls-bench-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        bed, witness = Bed(), Witness()
        stack.callback(bed.down)
        stack.callback(witness.close)
        nodes = dict(zip(WAYS, bed.up(len(WAYS), BED_GPU=str(GPUS)), strict=True))
        portal = Portal(home, f"unix://{home}/no-engine-here", HOME=str(bed.folder / "home"), **SETTINGS)
        stack.callback(portal.close)
        for node in nodes.values():
            ensure_sample_image(DockerRuntime(node.unix))
            witness.watch(node)
        portal.start()
        for way, node in nodes.items():
            portal.add_node(node, way, gpuNumber=GPUS, cpuNumber=8)
        portal.wait_ready()
        yield Stage(portal, nodes, witness)
