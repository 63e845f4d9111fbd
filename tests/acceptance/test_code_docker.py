"""What a start needs from the store, on a real engine: code in its container, and images of registries with a password,
which nobody sees."""

from __future__ import annotations

import base64
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hdfs import TokenClient

from clusters.engines.docker.request import TarUpload
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.runtime import FaultReason, Phase, Progress, RuntimeFault
from clusters.engines.sample_image import CHANGES, SAMPLE_IMAGE, root_file_system, static_busybox
from tests.acceptance.docker_lab import DockerLab
from tests.acceptance.portal import Portal, config, container_of, docker, inspect
from tests.acceptance.test_https import password_of, sign_in
from tests.bed.docker_bed import BedNode
from tests.bed.registry import Registry
from tests.contract_runtime import found, request
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker

PASSWORD = "pw-that-nobody-may-see"
NOBODYS_IMAGE = "longshore-test/nobody:1"
LOOK = """
for file in $(find /pai/code mnist -type f | sort); do stat -c '%a %n' "$file"; done
stat -c '%a %n' /pai/code/mnist/lib mnist/empty
./mnist/run.sh
echo more >> mnist/train.py && cat mnist/train.py && cat /pai/code/mnist/train.py
"""
SEEN = """444 /pai/code/mnist/.hidden
444 /pai/code/mnist/lib/a b.py
555 /pai/code/mnist/run.sh
444 /pai/code/mnist/train.py
644 mnist/.hidden
644 mnist/lib/a b.py
755 mnist/run.sh
644 mnist/train.py
555 /pai/code/mnist/lib
755 mnist/empty
run
train
more
train
"""


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    yield shared_portal
    shared_portal.stop_all()
    shared_portal.wait_clean(docker_engine)


@pytest.fixture(scope="module")
def files(portal: Portal) -> TokenClient:
    answer = portal.http.get(f"{portal.url}/webhdfs/v1/?op=GETDELEGATIONTOKEN")
    client = TokenClient(portal.url, answer.json()["Token"]["urlString"], timeout=LIMIT)
    for name, content in {"train.py": "train\n", "lib/a b.py": "a", ".hidden": "h"}.items():
        client.write(f"/users/admin/mnist/{name}", data=content.encode())
    client.write("/users/admin/mnist/run.sh", data=b"#!/bin/sh\necho run\n", permission="755")
    client.makedirs("/users/admin/mnist/empty")
    return client


def code(name: str, command: str, folder: str = "mnist", **more: object) -> dict[str, object]:
    return config(name, command, codeDir=f"$PAI_DEFAULT_FS_URI/users/$PAI_USER_NAME/{folder}", **more)


# --- code ------------------------------------------------------------------------------------------------------------


def test_code_is_there_to_read_and_as_a_copy_to_work_in(portal: Portal, files: TokenClient) -> None:
    spool = portal.home / "spool" / "code"
    before = set(spool.glob("*.tar"))
    name = portal.submit(code("code", "IFS='\n'" + LOOK, taskNumber=3, minSucceededTaskCount=3))
    assert portal.wait_state(name)["state"] == "SUCCEEDED", portal.log(name)
    for index in range(3):
        assert portal.log(name, index=index) == SEEN
    assert len(set(spool.glob("*.tar")) - before) == 1 and spool.stat().st_mode & 0o777 == 0o700


def test_who_cannot_write_in_the_start_directory_reads_the_code_all_the_same(
    portal: Portal, files: TokenClient, docker_engine: BedNode
) -> None:
    changes = (*CHANGES, "USER nobody", "WORKDIR /")
    DockerRuntime(docker_engine.unix).import_image(NOBODYS_IMAGE, root_file_system(static_busybox()), changes)
    name = portal.submit(code("nobody", "cat /pai/code/mnist/train.py; ls -d mnist; id -un") | {"image": NOBODYS_IMAGE})
    assert portal.wait_state(name)["state"] == "SUCCEEDED", portal.log(name)
    assert portal.log(name) == "train\nnobody\n"


def test_code_that_is_not_there_is_the_cause_on_the_page(portal: Portal, files: TokenClient) -> None:
    name = portal.submit(code("no-code", "true", "gone", retryCount=2))
    status = portal.wait_state(name)
    assert (status["state"], status["appExitCode"], status["retries"]) == ("FAILED", 255, 0)
    assert "Can not stat" in str(status)
    until(lambda: portal.job(name)["jobStatus"].get("diagnosis"), what="a diagnosis")
    with httpx.Client(base_url=portal.url, timeout=LIMIT) as http:
        sign_in(http, "admin", password_of(portal))  # who may not read the job's logs gets no advice
        page = http.get(f"/job-detail.html?username=admin&jobName={name}", follow_redirects=True)
    assert "Can not stat" in page.text and "Upload the code, or correct codeDir." in page.text


def test_a_copy_into_a_container_tells_how_far_it_is_and_can_be_given_up(
    docker_engine: BedNode, sample_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.engines.docker.request.EVERY", 0.0)
    (tmp_path / "big").write_bytes(bytes(5_000_000))
    with tarfile.open(tmp_path / "code.tar", "w") as tar:
        tar.add(tmp_path / "big", "pai/code/big")
    lab = DockerLab(DockerRuntime(docker_engine.unix), docker_engine)
    asked = request(lab, image=SAMPLE_IMAGE, tars=(tmp_path / "code.tar",))
    told: list[Progress] = []

    def give_up(progress: Progress) -> None:
        told.append(progress)
        if progress.done > 1_000_000:
            raise RuntimeFault("It is no longer wanted.", reason=FaultReason.WITHDRAWN)

    try:
        with pytest.raises(RuntimeFault):
            lab.runtime.ensure(asked, on_progress=give_up)
        assert 0 < told[-1].done < told[-1].total and "copying files" in told[-1].text
        left = found(lab, asked.name)
        assert left is not None and left.phase is Phase.CREATED
        assert lab.runtime.ensure(asked).phase is Phase.RUNNING
        assert len(lab.read_file(asked.name, "/pai/code/big")) == 5_000_000
    finally:
        lab.runtime.remove(asked.name)


def test_what_is_sent_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "tar").write_bytes(b"x" * 100_000)
    with TarUpload(tmp_path / "tar", lambda progress: None) as sent:
        assert len(sent.read(16_384)) == 16_384


# --- registries with a password --------------------------------------------------------------------------------------


@pytest.fixture
def locked(private_registry: Registry, files: TokenClient) -> Registry:
    """Its password is in ``auth``, a wrong one in ``wrong``, one for another registry in ``other``."""
    private_registry.password = PASSWORD
    server = private_registry.address
    for name, lines in {
        "auth": f"{server}\r\nbed\r\n{PASSWORD}\r\n\r\n",
        "wrong": f"{server}\nbed\nnot-{PASSWORD}\n",
        "other": f"docker.io\nbed\n{PASSWORD}\n",
    }.items():
        files.write(f"/users/admin/{name}", data=lines.encode(), overwrite=True)
    return private_registry


def with_auth(name: str, image: str, auth: str, command: str = "true") -> dict[str, object]:
    return config(name, command, authFile=f"$PAI_DEFAULT_FS_URI/users/admin/{auth}", retryCount=2) | {"image": image}


def test_the_password_of_an_auth_file_pulls_and_is_seen_nowhere(
    portal: Portal, locked: Registry, docker_engine: BedNode
) -> None:
    image = locked.add("team/tool", root=root_file_system(static_busybox()).read())
    name = portal.submit(with_auth("locked", image, "auth", "env; cat /proc/1/environ; while :; do sleep 1; done"))
    portal.wait_running(name)
    until(lambda: "PAI_JOB_NAME" in portal.log(name), 10, 0.1, "its output")
    container = container_of(docker_engine, name)
    told = [str(inspect(docker_engine, container)), docker(docker_engine, "image", "inspect", image), portal.text()]
    told += [portal.log(name), str(portal.job(name)), str(portal.events(name))]
    told.append(portal.http.get(f"{portal.url}/job-detail.html?username=admin&jobName={name}").text)
    store = portal.home / "store"
    kept = [file for file in portal.home.rglob("*") if file.is_file() and store not in file.parents]
    secrets = [
        PASSWORD,
        base64.b64encode(f"bed:{PASSWORD}".encode()).decode(),
        base64.b64encode(PASSWORD.encode()).decode(),
    ]
    for secret in secrets:
        assert not [text for text in told if secret in text]
        assert not [file for file in kept if secret.encode() in file.read_bytes()]
    portal.stop(name)
    portal.wait_state(name)
    docker(docker_engine, "rmi", "-f", image)
    without = portal.submit(config("without", retryCount=2) | {"image": image})
    status = portal.wait_state(without)
    assert (status["appExitCode"], status["retries"]) == (255, 0), "the node did not keep the password"
    assert "wants other credentials" in str(status)


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ("wrong", "It refused the user and the password of the authFile"),
        ("other", "is for docker.io, the image is from"),
        ("gone", "Read authFile failed"),
    ],
)
def test_what_is_wrong_with_an_auth_file_is_told(portal: Portal, locked: Registry, auth: str, words: str) -> None:
    image = locked.add("team/data")
    name = portal.submit(with_auth(f"auth-{auth}", image, auth))
    status = portal.wait_state(name)
    assert (status["state"], status["appExitCode"], status["retries"]) == ("FAILED", 255, 0)
    assert words in str(status) and PASSWORD not in str(status)


def test_a_missing_image_is_told_apart_from_a_wrong_password(portal: Portal, locked: Registry) -> None:
    name = portal.submit(with_auth("absent", f"{locked.address}/team/absent:1", "auth"))
    status = portal.wait_state(name)
    assert (status["appExitCode"], status["retries"]) == (255, 0)
    assert "does not exist" in str(status) and "authFile" not in str(status["appExitMessages"])


def test_a_registry_that_is_out_of_reach_is_the_clusters_fault(portal: Portal, locked: Registry) -> None:
    image = f"{locked.address.replace(':5001', ':5999')}/team/tool:1"
    name = portal.submit(with_auth("away", image, "other"))
    until(lambda: portal.job(name)["jobStatus"]["retryDetails"]["platform"], 30, 0.1, what="another try")
    first = portal.attempts(name)[-1]
    assert first["appExitCode"] == 193
    assert "cannot reach its registry" in first["appExitMessages"]["container"]
    portal.stop(name)
