"""Every example that the submit page offers, sent as it is, with stand-ins for the frameworks and nothing else.

The containers are real, and so is what the stand-ins do: they speak to each other over the addresses and ports that
their commands were given, and read and write a real HDFS with their job's token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobs.config.samples import EXAMPLES
from tests.acceptance.portal import ROOT, Portal, portal_on
from tests.bed.docker_bed import BedNode
from tests.bed.example_image import STAND_INS, ensure_example_images
from tests.bed.hdfs_bed import HdfsBed
from tests.helpers import LIMIT, until
from tests.samples import spec_of

pytestmark = [pytest.mark.docker, pytest.mark.hdfs]
CONFIGS = {sample.key: sample.config for sample in EXAMPLES}
AT_ONCE = ("tensorboard", "tensorflow", "pytorch-ddp", "hdfs", "jupyter")
REAL_PROGRAMS = ("store.py", "in_and_out.py", "resume.py", "sweep.py")  # they need Python alone
TOKEN = "token-of-the-test"
LINE = [3.0, -1.0]  # what all stand-ins have to learn


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, hdfs: HdfsBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """The examples were submitted side by side, but for the one that needs the result of another."""
    ensure_example_images(docker_engine, {spec_of(config).image for config in CONFIGS.values()})
    settings = {"LONGSHORE_STORE_URL": hdfs.store_url, "LONGSHORE_STORE_USER": hdfs.user}
    address = f"{docker_engine.bed.network}.1"  # of the bed's bridge: containers reach it
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine, address=address, **settings) as one:
        one.change_node("local", memoryMB=65_536, cpuNumber=32)
        put_programs(one)
        for name in AT_ONCE:
            one.submit(CONFIGS[name])
        yield one
        one.stop_all()
        one.wait_clean(docker_engine)


def put_programs(portal: Portal) -> None:
    examples = ROOT / "docs/examples"
    stand_ins = (STAND_INS / "code").glob("*.py")
    for program in (*(examples / "code" / name for name in REAL_PROGRAMS), *stand_ins):
        portal.write(f"/examples/code/{program.name}", program.read_bytes())
    for data in (examples / "data").iterdir():
        portal.write(f"/examples/data/{data.name}", data.read_bytes())


def succeeded(portal: Portal, name: str, role: str) -> str:
    """What its first task printed."""
    status = portal.wait_state(name, timeout=120)
    assert status["state"] == "SUCCEEDED", portal.log(name, role, stream="stderr")
    return portal.log(name, role)


def page_of(portal: Portal, name: str, role: str, label: str) -> str:
    """The address of a port of its running first task, as the API tells it."""
    task = portal.wait_running(name, role, timeout=120)
    return f"http://{task['containerIp']}:{task['containerPorts'][label]}"


def answer(method: str, address: str, **more: Any) -> httpx.Response:
    """Once somebody listens there."""

    def asked() -> httpx.Response | None:
        try:
            return httpx.request(method, address, timeout=LIMIT, **more)
        except httpx.TransportError:
            return None

    found = until(asked, 60, what=f"an answer from {address}")
    assert found is not None
    return found


def test_tensorboard_shows_the_curves_while_the_training_runs(portal: Portal) -> None:
    address = f"{page_of(portal, 'tensorboard', 'board', 'tensorboard')}/data/plugin/scalars/scalars?tag=loss&run=."
    points = until(lambda: (found := answer("GET", address)).status_code == 200 and found.json(), 60, what="a curve")
    assert [point[1] for point in points] == list(range(1, len(points) + 1))
    assert portal.state("tensorboard") == "RUNNING"


def test_parameter_servers_and_workers_train_one_model(portal: Portal) -> None:
    told = [succeeded(portal, "tensorflow", "worker"), portal.log("tensorflow", "worker", 1)]
    done = [int(re.search(r"did (\d+) of 5000 steps.*; loss 0\.0000\n", each)[1]) for each in told]  # type: ignore[index]
    assert all(done) and sum(done) >= 5000, "both of them computed gradients"
    assert [portal.task("tensorflow", "ps_server", index)["containerExitCode"] for index in (0, 1)] == [-7400, -7400]
    weights = json.loads(portal.read("/Output/admin/tensorflow/weights.npz"))
    assert [round(weight, 2) for weight in weights] == LINE


def test_workers_of_ddp_average_their_gradients_and_the_model_is_served(portal: Portal) -> None:
    told = succeeded(portal, "pytorch-ddp", "worker").splitlines()
    assert told[-3:-1] == ["step 500: loss 0.0000", "2 processes have equal weights"]
    assert portal.log("pytorch-ddp", "worker", 1) == ""
    portal.submit(CONFIGS["serving"])
    address = page_of(portal, "serving", "server", "http")
    assert answer("GET", f"{address}/healthz").json() == {"ready": True}
    predicted = answer("POST", f"{address}/predict", json={"x": [0.0, 1.0]}).json()
    assert [round(y, 2) for y in predicted["y"]] == [-1.0, 2.0]


def test_files_come_from_hdfs_and_go_back_there(portal: Portal) -> None:
    assert "saved the means of 2 columns" in succeeded(portal, "hdfs", "main")
    result = json.loads(portal.read("/users/admin/results/hdfs/means.json"))
    assert result == {"celsius": 22.6, "watts": 1530.0}


def test_a_training_goes_on_where_it_was(portal: Portal) -> None:
    """Stopped after some steps, and submitted again with the same folder."""
    first = CONFIGS["resume"].replace("results/$PAI_JOB_NAME", "results/resume")
    portal.submit(first)
    portal.wait_running("resume", "train", timeout=120)
    until(lambda: "begins at step 0" in portal.log("resume", "train"), 60, 0.2, "it has begun, and hears SIGTERM")
    portal.stop("resume")
    portal.wait_state("resume")
    saved = json.loads(portal.read("/users/admin/results/resume/state.json"))["step"]
    again = first.replace('"jobName": "resume"', '"jobName": "again"').replace('"steps": 600', f'"steps": {saved + 5}')
    portal.submit(again)
    assert f"resumed after step {saved}\n" in succeeded(portal, "again", "train")


def test_the_jobs_of_a_sweep_put_their_results_into_one_folder(portal: Portal) -> None:
    text = {"content": CONFIGS["sweep"].encode(), "headers": {"Content-Type": "text/plain"}}
    assert portal.http.post("/sweeps", **text).status_code == 201
    told = [succeeded(portal, f"sweep-{number:02}", "main").splitlines() for number in range(1, 7)]
    all_of_them = max(told, key=len)  # of the one that came last
    assert (len(all_of_them), all_of_them[0]) == (6, "rate 0.3 seed 2: loss 0.0096")
    results = [f"/users/admin/results/sweep/{rate}-{seed}.json" for rate in ("0.03", "0.1", "0.3") for seed in (1, 2)]
    assert all(json.loads(portal.read(path))["loss"] < 3 for path in results)


def test_jupyter_makes_a_token_when_it_was_given_none(portal: Portal) -> None:
    page = page_of(portal, "jupyter", "lab", "jupyter")
    below = answer("GET", f"{page}/").headers["Location"].removesuffix("lab")
    made = portal.read("/users/admin/notebooks/token").decode().strip()
    assert len(made) == 32
    for token, status in (("wrong", 403), (made, 200)):
        asked = answer("GET", f"{page}{below}api/contents/none.ipynb", headers={"Authorization": f"token {token}"})
        assert asked.status_code == status
    assert made not in portal.log("jupyter", "lab") + portal.log("jupyter", "lab", stream="stderr")
    portal.stop("jupyter")


def test_notebooks_of_jupyter_outlive_their_container(portal: Portal) -> None:
    config = CONFIGS["jupyter"].replace('"JUPYTER_TOKEN": ""', f'"JUPYTER_TOKEN": "{TOKEN}"')
    portal.submit(config.replace('"jobName": "jupyter"', '"jobName": "notebooks"'))
    notebook = {"type": "notebook", "format": "json", "content": {"cells": [], "nbformat": 4}}
    knows = {"headers": {"Authorization": f"token {TOKEN}"}}
    page = page_of(portal, "notebooks", "lab", "jupyter")
    below = answer("GET", f"{page}/").headers["Location"].removesuffix("lab")
    address = f"{page}{below}api/contents/first.ipynb"
    assert answer("PUT", address, json=notebook).status_code == 403
    assert answer("PUT", address, json=notebook, **knows).status_code in (200, 201)
    portal.stop("notebooks")
    portal.wait_state("notebooks")
    assert json.loads(portal.read("/users/admin/notebooks/first.ipynb")) == notebook["content"]


def test_a_training_that_has_succeeded_ends_its_tensorboard(portal: Portal) -> None:
    assert "saved the curves of 1200 steps" in succeeded(portal, "tensorboard", "train")
    assert portal.task("tensorboard", "board")["containerExitCode"] == -7400
