"""Two complete examples of the documents that users have run to their end on a real engine: the oldest, with numbers of
roles and killAllOnCompletedTaskNumber, and the newest, with their names, minSucceededTaskCount and jobEnvs.

Sent with their comments; only what this bed does not have is another one: the image, GPUs, and programs that the image
lacks or that would load from the internet (their arguments are printed instead, as the container's shell expands them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode

pytestmark = pytest.mark.docker
SEEDS = Path(__file__).parents[1] / "unit" / "seeds"
NEWEST = ("004", "--batch_size=32 --model=resnet20")  # the words are of its jobEnvs
ABSENT = r"pip --quiet install scipy && python\b"
HOSTS = r"\d+\.\d+\.\d+\.\d+:\d+,\d+\.\d+\.\d+\.\d+:\d+"


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    """With a node that says it has room for both, and the virtual cluster that one of them names."""
    one, memory = shared_portal, shared_portal.node("local")["resourcesTotal"]["memory"]
    one.change_node("local", memoryMB=65536)
    answer = one.http.put("/virtual-clusters/your_virtual_cluster", json={"vcCapacity": 50, "vcMaxCapacity": 100})
    assert answer.status_code == 201, answer.text
    yield one
    one.stop_all()
    one.wait_clean(docker_engine)
    one.change_node("local", memoryMB=memory)


def runnable(seed: str, name: str) -> str:
    text = (SEEDS / f"{seed}.jsonc").read_text()
    text = re.sub(r'("jobName": )"[^"]*"', rf'\1"{name}"', text)
    text = re.sub(r'("image": )"[^"]*"', r'\1"longshore/sample:1"', text)
    text = re.sub(r'("gpuNumber": )\d+', r"\g<1>0", text)
    text = re.sub(ABSENT, "echo", text)
    if "killAllOnCompletedTaskNumber" in text:  # counts the tasks that complete: a parameter server serves on
        text = re.sub(r'(--job_name=ps\b[^"]*)"', r'\1 && exec sleep 600"', text)
    return text


@pytest.fixture(autouse=True, scope="module")
def code(portal: Portal) -> None:
    """What their codeDir names, uploaded as the documents say."""
    for path in ("/path/to/code", "/path/tensorflow-distributed-jobguid/code"):
        query = "op=CREATE&overwrite=true&data=true"
        answer = portal.http.put(f"{portal.url}/webhdfs/v1{path}/train.py?{query}", content=b"print()")
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(("seed", "told"), [("000", "--num_gpus=4 --batch_size=32 --model=resnet20"), NEWEST])
def test_parameter_servers_and_workers_know_each_other(portal: Portal, seed: str, told: str) -> None:
    name = portal.submit(runnable(seed, f"seed-{seed}"))
    assert portal.wait_state(name, timeout=120)["state"] == "SUCCEEDED"
    said = portal.log(name, "worker", 1)
    assert re.search(rf"--ps_hosts={HOSTS} --worker_hosts={HOSTS} --job_name=worker --task_index=1\n", said), said
    assert told in said and "$" not in said
