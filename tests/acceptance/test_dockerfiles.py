"""The build files, built on a file system of this machine's own files: nothing is fetched from anywhere else."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest
from docker.models.containers import Container

from tests.bed import host_image
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT, quick, until

pytestmark = pytest.mark.docker
ROOT = Path(__file__).resolve().parents[2]
HOST_IMAGE = "longshore-test/host:1"
PASSWORD = "of the test"


@pytest.fixture(scope="module")
def engine(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[docker.DockerClient]:
    if reason := host_image.missing():
        pytest.skip(reason)
    client = docker.DockerClient(docker_engine.unix, timeout=LIMIT)
    tar = tmp_path_factory.mktemp("image") / "root.tar"
    host_image.write(tar, ROOT / "requirements/run.txt")
    repository, tag = HOST_IMAGE.split(":")
    client.api.import_image_from_file(str(tar), repository, tag, changes=list(host_image.CHANGES))
    tar.unlink()
    yield client
    for image in client.images.list("longshore-test/*"):  # newest first
        for name in image.tags:
            client.images.remove(name, force=True)
    client.images.prune()
    client.close()


@pytest.fixture
def hadoop(docker_engine: BedNode) -> Iterator[dict[str, str]]:
    """Stands for the download of 700 MB: an archive of the same layout, on the bed's own address."""
    archive = _archive({"hadoop-9.9/bin/hdfs": "#!/bin/sh\necho Hadoop of the test", "hadoop-9.9/share/doc/a": "a"})

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(archive)))
            self.end_headers()
            self.wfile.write(archive)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((f"{docker_engine.bed.network}.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield {
            "HADOOP_VERSION": "9.9",
            "HADOOP_URL": f"http://{server.server_address[0]!s}:{server.server_port}/hadoop-9.9.tar.gz",
            "HADOOP_SHA512": hashlib.sha512(archive).hexdigest(),
        }
    finally:
        server.shutdown()
        server.server_close()


def test_it_builds_a_base_for_jobs_with_an_sshd_that_has_no_keys_yet(
    engine: docker.DockerClient, hadoop: dict[str, str]
) -> None:
    with_java = _build(engine, "FROM longshore-test/host:1\nRUN ln -s /bin/true /usr/bin/java", "java")
    built = _build(engine, _file("build.base"), "base", BASE_IMAGE=with_java, **hadoop)
    told = engine.containers.run(
        built,
        ["sh", "-c", "ls /etc/ssh; ssh-keygen -A >/dev/null && $(command -v sshd) -t && hdfs version && python -V"],
        remove=True,
    ).decode()
    assert "ssh_host" not in told
    assert "Hadoop of the test" in told
    assert "Python 3" in told
    found = engine.containers.run(built, ["find", "/opt/hadoop", "/tmp", "-type", "f"], remove=True).decode()
    assert found.split() == ["/opt/hadoop/bin/hdfs"], "nothing that jobs do not need, and no archive"


def test_a_damaged_hadoop_ends_the_build(engine: docker.DockerClient, hadoop: dict[str, str]) -> None:
    with_java = _build(engine, "FROM longshore-test/host:1\nRUN ln -s /bin/true /usr/bin/java", "java")
    with pytest.raises(docker.errors.BuildError, match="returned a non-zero code"):
        _build(engine, _file("build.base"), "base", BASE_IMAGE=with_java, **{**hadoop, "HADOOP_SHA512": "0" * 128})


@pytest.mark.parametrize(
    ("kind", "modules"),
    [
        ("tensorflow", ["tensorflow"]),
        ("pytorch", ["torch", "torchvision"]),
        ("serving", ["fastapi"]),
        ("jupyter", ["jupyterlab"]),
        ("tensorboard", ["tensorboard", "tensorboardX"]),
    ],
)
def test_frameworks_that_the_base_has_are_left_as_they_are(
    engine: docker.DockerClient, kind: str, modules: list[str]
) -> None:
    base = _build(engine, _file("build.base"), "bare", BASE_IMAGE=HOST_IMAGE, HADOOP_VERSION="")
    made = "".join(f"\nRUN echo __version__=1 >$(python3 -c 'import pip; print(pip.__path__[0])')/../{name}.py"
                   for name in modules)  # fmt: skip
    program = "/usr/lib/code-server/bin/code-server"  # stands for that of the image it is copied from
    made += f"\nRUN mkdir -p {Path(program).parent} && printf '#!/bin/sh\\necho 4' >{program} && chmod 755 {program}"
    with_it = _build(engine, f"FROM {base}{made}", f"has-{kind}")
    more = {"CODE_IMAGE": with_it} if kind == "jupyter" else {}
    _build(engine, _file(f"run.{kind}"), kind, BASE_IMAGE=with_it, **more)


def test_longshore_in_its_container_runs_a_job_and_ends_when_it_is_told_to(
    engine: docker.DockerClient, docker_engine: BedNode
) -> None:
    engine.images.build(
        path=str(ROOT),
        dockerfile="Dockerfiles/Dockerfile.longshore",
        tag="longshore-test/longshore:1",
        buildargs={"PYTHON_IMAGE": HOST_IMAGE},
        network_mode="none",
        rm=True,
    )
    container = engine.containers.run(
        "longshore-test/longshore:1",
        detach=True,
        network_mode="host",
        group_add=[str(docker_engine.socket.stat().st_gid)],
        volumes={"/run/docker.sock": {"bind": "/var/run/docker.sock", "mode": "rw"}},
        environment={"LONGSHORE_ADMIN_PASSWORD": PASSWORD},
        healthcheck={"interval": 500_000_000},
    )
    try:
        until(lambda: _health(container) == "healthy", 90, 0.2, "the container is healthy")
        assert container.exec_run(["id", "-u"]).output.strip() == b"10001"
        with httpx.Client(base_url=f"http://{docker_engine.address}:9186/api/v1", timeout=LIMIT) as portal:
            _run_a_job(portal)
        with quick(10, "it ends when it is told to"):
            container.stop(timeout=int(LIMIT))
        container.reload()
        assert container.attrs["State"]["ExitCode"] == 0
    except BaseException:
        print(container.logs().decode()[-6000:])
        raise
    finally:
        container.remove(force=True, v=True)


def _run_a_job(portal: httpx.Client) -> None:
    token = portal.post("/token", json={"username": "admin", "password": PASSWORD}).json()["token"]
    portal.headers["Authorization"] = f"Bearer {token}"
    role = {"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "echo hello"}
    config = {"jobName": "hello", "image": "longshore/sample:1", "taskRoles": [role]}
    until(lambda: "local" in portal.get("/nodes").text, 20, 0.1, "the engine is a node")
    assert portal.post("/jobs", json=config).status_code == 201

    def state() -> str:
        return str(portal.get("/user/admin/jobs/hello").json()["jobStatus"]["state"])

    until(lambda: state() in ("SUCCEEDED", "FAILED", "STOPPED"), 30, 0.1, "the job has ended")
    assert state() == "SUCCEEDED"


def _health(container: Container) -> str:
    container.reload()
    return str(container.attrs["State"].get("Health", {}).get("Status"))


def _file(name: str) -> str:
    return (ROOT / "Dockerfiles" / f"Dockerfile.{name}").read_text()


def _build(engine: docker.DockerClient, text: str, name: str, **arguments: Any) -> str:
    """The image's name. On the host's network of the node, which reaches nothing but the bed's own address."""
    tag = f"longshore-test/{name}:1"
    engine.images.build(fileobj=io.BytesIO(text.encode()), tag=tag, buildargs=arguments, network_mode="host", rm=True)
    return tag


def _archive(files: dict[str, str]) -> bytes:
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return spool.getvalue()
