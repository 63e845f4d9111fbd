"""Code in, logins between and from outside, outputs and logs back: two real hosts, and files in a folder or on HDFS."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs import TokenClient

from tests.acceptance.portal import Json, Portal, config, portal_beside
from tests.bed.docker_bed import Bed, BedNode
from tests.bed.hdfs_bed import HdfsBed
from tests.bed.ssh_image import SSH_IMAGE, ensure_ssh_image
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker

# The worker ends at once when it is told, and the login that told it may end with its container.
PS = """
cat code/hello.txt && cat /pai/code/code/hello.txt
until ssh worker-0 cat /tmp/mark; do sleep 0.2; done
ssh worker-0 'echo "index $PAI_TASK_INDEX of $PAI_JOB_NAME"'
echo result > out
path=/${PAI_OUTPUT_DIR#*://*/}/result
curl -sS -f -L -T out "$LONGSHORE_WEBHDFS_URL$path?op=CREATE&delegation=$(cat $LONGSHORE_WEBHDFS_TOKEN_FILE)"
ssh worker-0 touch /tmp/done || true
"""
WORKER = """
echo "mark of the worker" > /tmp/mark
until [ -e /tmp/done ]; do sleep 0.2; done
"""


@pytest.fixture(scope="module")
def hosts(docker_nodes: list[BedNode]) -> list[BedNode]:
    for node in docker_nodes[:2]:
        ensure_ssh_image(node)
    return docker_nodes[:2]


@pytest.fixture(scope="module", params=["folder", pytest.param("hdfs", marks=pytest.mark.hdfs)])
def portal(
    request: pytest.FixtureRequest, bed: Bed, hosts: list[BedNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Portal]:
    home = tmp_path_factory.mktemp("portal")
    settings = {}
    if request.param == "hdfs":
        store: HdfsBed = request.getfixturevalue("hdfs")
        settings = {"LONGSHORE_STORE_URL": store.store_url, "LONGSHORE_STORE_USER": store.user}
    with portal_beside(*hosts, home=home, address=f"{bed.network}.1", **settings) as one:
        for node in hosts:
            one.add_node(node, cpuNumber=2)
        one.wait_ready()
        yield one
        one.stop_all()
        one.wait_clean(*hosts)


@pytest.fixture(scope="module")
def files(portal: Portal) -> TokenClient:
    answer = portal.http.get(f"{portal.url}/webhdfs/v1/?op=GETDELEGATIONTOKEN")
    return TokenClient(portal.url, answer.json()["Token"]["urlString"], timeout=LIMIT)


def roles(**more: str) -> list[Json]:
    return [
        {"name": name, "taskNumber": 1, "cpuNumber": 2, "memoryMB": 100, "gpuNumber": 0, "command": command}
        for name, command in more.items()
    ]


def test_code_logins_outputs_and_logs(portal: Portal, files: TokenClient, tmp_path: Path) -> None:
    files.write("/users/admin/code/hello.txt", data=b"hello from the code\n", overwrite=True)
    sent = {
        "jobName": "whole-way",
        "image": SSH_IMAGE,
        "codeDir": "$PAI_DEFAULT_FS_URI/users/$PAI_USER_NAME/code",
        "taskRoles": [*roles(ps=PS, worker=WORKER)],
    }
    sent["taskRoles"][0] |= {"minSucceededTaskCount": 1}
    name = portal.submit(sent)
    assert portal.wait_state(name, timeout=120)["state"] == "SUCCEEDED", portal.job(name)["jobStatus"]
    nodes = {portal.task(name, role)["containerIp"] for role in ("ps", "worker")}
    assert len(nodes) == 2, "they ran on two hosts"
    assert portal.log(name, "ps").splitlines() == [
        "hello from the code",
        "hello from the code",
        "mark of the worker",
        "index 0 of admin~whole-way",
    ]
    with files.read(f"/Output/admin/{name}/result") as reader:
        assert reader.read() == b"result\n"
    folder = f"/Container/admin/admin~{name}"
    with files.read(f"{folder}/JobConfig.json") as reader:
        assert json.loads(reader.read()) == sent
    assert files.status(f"{folder}/ssh/keyFiles/admin~{name}")["permission"] == "600"
    assert files.status(f"{folder}/ssh/keyFiles/admin~{name}.pub")["owner"] == "admin"
    until(lambda: _logs(files, folder), 20, 0.2, what="the logs are in the store")
    assert b"mark of the worker" in b"".join(_logs(files, folder))


def test_a_login_from_outside_with_the_key_of_the_job(portal: Portal, tmp_path: Path) -> None:
    waits = 'echo "inside $PAI_CURRENT_TASK_ROLE_NAME" > /tmp/mark; while :; do sleep 1; done'
    name = portal.submit(config("login", waits, image=SSH_IMAGE))
    portal.wait_running(name)
    found = until(lambda: _ssh(portal, name), 15, 0.2, what="sshd answers")
    (container,) = found["containers"]
    key = tmp_path / "key"
    link = found["keyPair"]["privateKeyDirectDownloadLink"]
    subprocess.run(["curl", "-sS", "-f", link, "-o", str(key)], check=True, timeout=LIMIT)
    key.chmod(0o600)
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    ssh = ["ssh", *options, "-o", "BatchMode=yes", "-p", container["sshPort"], f"root@{container['sshIp']}"]
    command = ["cat /tmp/mark; echo $PAI_JOB_NAME $PAI_WORK_DIR"]
    said = subprocess.run([*ssh[:1], "-i", str(key), *ssh[1:], *command], capture_output=True, text=True, timeout=LIMIT)
    assert said.stdout.splitlines() == ["inside main", f"admin~{name} /root"], said.stderr
    refused = subprocess.run([*ssh, *command], capture_output=True, text=True, timeout=LIMIT)
    assert refused.returncode != 0, "nobody comes in without the key"
    portal.stop(name)
    assert portal.wait_state(name)["state"] == "STOPPED"
    assert _ssh(portal, name) is None


def test_an_image_without_sshd_runs_all_the_same(portal: Portal, hosts: list[BedNode]) -> None:
    from clusters.engines.docker.runtime import DockerRuntime
    from clusters.engines.sample_image import ensure_sample_image

    for node in hosts:
        ensure_sample_image(DockerRuntime(node.unix))
    name = portal.submit(config("no-sshd", "cat /pai/log/runtime.pai.log; [ ! -e /root/.ssh ]"))
    assert portal.wait_state(name)["state"] == "SUCCEEDED"
    assert "neither ssh nor sshd" in portal.log(name)
    assert _ssh(portal, name) is None


def _ssh(portal: Portal, name: str) -> Json | None:
    answer = portal.http.get(f"/user/admin/jobs/{name}/ssh")
    assert answer.status_code in (200, 404), answer.text
    return answer.json() if answer.status_code == 200 else None


def _logs(files: TokenClient, folder: str) -> list[bytes]:
    found = []
    for path, _, names in files.walk(f"{folder}/log"):
        for name in names:
            if name == "stdout":
                with files.read(f"{path}/{name}") as reader:
                    found.append(reader.read())
    return found
