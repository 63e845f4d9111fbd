"""Every example that the submit page offers, sent as it is, with stand-ins for the frameworks and nothing else.

The containers are real, and so is what the stand-ins do: they speak to each other over the addresses and ports that
their commands were given, and read and write the store with their job's token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from jobs.config.samples import EXAMPLES
from jobs.config.spec import read_config
from tests.acceptance.portal import ROOT, Portal, portal_on
from tests.bed.docker_bed import BedNode
from tests.bed.example_image import STAND_INS, ensure_example_images

pytestmark = pytest.mark.docker
CONFIGS = {sample.key: sample.config for sample in EXAMPLES}
REAL_PROGRAMS = ("store.py",)  # they need Python alone


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """All of them were submitted side by side."""
    ensure_example_images(docker_engine, {read_config(config).image for config in CONFIGS.values()})
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine, address=f"{docker_engine.bed.network}.1") as one:
        one.change_node("local", memoryMB=65_536, cpuNumber=32)
        folder = ROOT / "docs/examples/code"
        programs = [*(folder / name for name in REAL_PROGRAMS), *(STAND_INS / "code").glob("*.py")]
        for program in programs:
            one.write(f"/examples/code/{program.name}", program.read_bytes())
        for config in CONFIGS.values():
            one.submit(config)
        yield one
        one.stop_all()
        one.wait_clean(docker_engine)


def test_parameter_servers_and_workers_train_one_model(portal: Portal) -> None:
    status = portal.wait_state("tensorflow", timeout=120)
    assert status["state"] == "SUCCEEDED", portal.log("tensorflow", "worker", stream="stderr")
    told = [portal.log("tensorflow", "worker", index) for index in (0, 1)]
    done = [int(re.search(r"did (\d+) of 2000 steps; loss 0\.0000\n", each)[1]) for each in told]  # type: ignore[index]
    assert all(done) and sum(done) >= 2000, "both of them computed gradients"
    assert [portal.task("tensorflow", "ps_server", index)["containerExitCode"] for index in (0, 1)] == [-7400, -7400]
    slope, shift = json.loads(portal.read("/Output/admin/tensorflow/weights.npz"))
    assert (round(slope, 2), round(shift, 2)) == (3.0, -1.0)


def test_workers_of_ddp_average_their_gradients_and_save_the_model(portal: Portal) -> None:
    status = portal.wait_state("pytorch-ddp", timeout=120)
    assert status["state"] == "SUCCEEDED", portal.log("pytorch-ddp", "worker", stream="stderr")
    assert portal.log("pytorch-ddp", "worker").splitlines()[-3:-1] == [
        "step 500: loss 0.0000",
        "2 processes have equal weights",
    ]
    assert portal.log("pytorch-ddp", "worker", 1) == ""
    assert [round(weight, 2) for weight in json.loads(portal.read("/Output/admin/pytorch-ddp/model.pt"))] == [3.0, -1.0]
