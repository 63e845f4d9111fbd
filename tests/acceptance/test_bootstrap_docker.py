"""The start script under a real engine: its init, its limits, its way of stopping."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clusters.engines import runtime
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.runtime import ContainerStatus, Phase, Stream
from jobs.config.spec import read_config
from jobs.containers import environment, launch
from jobs.containers.environment import TaskPlace
from jobs.containers.launch import Launch
from jobs.planning import exits
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT, until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("unhurried")]
IMAGE = "longshore-test/bootstrap:1"


@pytest.fixture(scope="module")
def engine(docker_engine: BedNode) -> DockerRuntime:
    busybox = Path(shutil.which("busybox") or pytest.skip("busybox is not installed"))
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        for folder in ("bin", "etc", "work", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(busybox, "bin/busybox")
        for applet in ("sh", "cat", "tr", "sed", "sleep", "tail", "echo", "ls"):
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    # An entry point that would break everything if it were not cleared
    changes = ["--change", "WORKDIR /work", "--change", 'ENTRYPOINT ["/no/such/program"]']
    command = ["docker", "-H", docker_engine.unix, "import", *changes, "-", IMAGE]
    subprocess.run(command, input=spool.getvalue(), check=True, capture_output=True)
    return DockerRuntime(docker_engine.unix, timeout=LIMIT)


@dataclass
class Task:
    engine: DockerRuntime
    name: str = ""
    memory_mb: int = 100

    def start(self, command: str, **config: Any) -> None:
        role = {"name": "w", "command": command, "memoryMB": self.memory_mb}
        spec = read_config(json.dumps({"jobName": "inside", "image": IMAGE, "taskRoles": [role], **config}))
        place = TaskPlace("w", 0, "10.0.0.1", {"http": [41000], "ssh": [41001]})
        instance = f"test-{uuid.uuid4().hex}"
        topology, app = environment.topology_of(spec, [place]), "application_1_0001"
        request = launch.request(
            Launch(spec, "mira", instance, 1, app, 1, place, "n1", "file:///store", topology=topology)
        )
        self.name = request.name
        self.engine.ensure(request)

    def status(self) -> ContainerStatus:
        return next(status for status in self.engine.list() if status.name == self.name)

    def end(self) -> ContainerStatus:
        until(lambda: self.status().phase is Phase.EXITED, 30, what="the container ended")
        return self.status()

    def log(self, stream: Stream = "stdout") -> str:
        return b"".join(chunk.data for chunk in self.engine.logs(self.name, stream)).decode()


@pytest.fixture
def task(engine: DockerRuntime) -> Iterator[Task]:
    task = Task(engine)
    yield task
    if task.name:
        engine.remove(task.name)


def test_a_command_writes_to_two_streams_and_ends_with_its_own_code(task: Task) -> None:
    task.start('echo "$lr"\necho err >&2\npwd; echo $PAI_WORK_DIR $PAI_JOB_NAME\nexit 3', jobEnvs={"lr": "a  * 'b'"})
    assert exits.classify(task.end(), 100).raw_code == 3
    assert task.log() == "a  * 'b'\n/work\n/work mira~inside\n"
    assert task.log("stderr") == "err\n"


@pytest.mark.parametrize("code", [137, 143])
def test_a_command_that_ends_with_the_code_of_a_kill_is_not_tried_again(task: Task, code: int) -> None:
    task.start(f"exit {code}")
    exit_ = exits.classify(task.end(), 100)
    assert (exit_.code, exit_.raw_code, exit_.blame) == (196, code, "your job")


@pytest.mark.parametrize("code", [*runtime.OUR_CODES, 255])
def test_no_code_of_a_command_is_taken_for_ours(task: Task, code: int) -> None:
    task.start(f"exit {code}")
    exit_ = exits.classify(task.end(), 100)
    assert (exit_.raw_code, exit_.blame, exit_.oom) == (code, "your job", False)


def test_a_port_on_which_something_else_listens_is_no_fault_of_the_job(task: Task, docker_engine: BedNode) -> None:
    docker = ["docker", "-H", docker_engine.unix]
    listen = ["run", "-d", "--network=host", "--entrypoint=/bin/busybox", IMAGE, "nc", "-l", "-p", "41000"]
    found = subprocess.run([*docker, *listen], check=True, capture_output=True, text=True).stdout.strip()
    try:
        until(lambda: ":41000 " in docker_engine.run("ss", "-ltn"), what="it listens")
        task.start("echo ran")
        exit_ = exits.classify(task.end(), 100)
        assert (exit_.code, exit_.blame, task.log()) == (-7103, "the cluster", "")
        assert "Port 41000" in task.log("stderr")
    finally:
        subprocess.run([*docker, "rm", "-f", found], check=True, capture_output=True)


def test_logins_find_the_variables_in_the_containers_environment_file(task: Task) -> None:
    task.start(". /etc/environment; echo $PAI_CONTAINER_HOST_PORT_LIST; cat /etc/environment")
    assert task.end().exit_code == 0
    assert task.log().startswith("http:41000;ssh:41001;\n") and "PAI_WORK_DIR='/work'" in task.log()


@pytest.mark.parametrize("command", ["sleep 600; echo no", "sleep 600 & sleep 500 & wait", "exec sleep 600"])
def test_a_stop_ends_it_at_once_with_143(task: Task, command: str) -> None:
    task.start(f"echo ready; {command}")
    until(lambda: task.log() == "ready\n")
    task.engine.stop(task.name, grace=int(LIMIT))  # after which it would be killed: 137
    assert (task.end().exit_code, task.log()) == (143, "ready\n")


def test_a_stop_leaves_children_the_time_to_save_their_work(task: Task) -> None:
    task.start("sh -c 'trap \"sleep 1; echo saved; exit 0\" TERM; echo ready; while :; do sleep 0.1; done'; echo no")
    until(lambda: task.log() == "ready\n")
    task.engine.stop(task.name, grace=int(LIMIT))
    assert (task.end().exit_code, task.log()) == (143, "ready\nsaved\n")


def _heard_since_before(engine: DockerRuntime) -> None:
    """What starts from now on starts after this process began to hear from the engine, whose clock is in seconds."""
    engine.list()
    until(lambda: engine._unbroken_since and datetime.now(UTC) > engine._unbroken_since)


def test_a_command_that_saves_its_work_when_somebody_stops_its_container_is_not_done(
    task: Task, docker_engine: BedNode
) -> None:
    _heard_since_before(task.engine)
    task.start("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    until(lambda: task.log() == "ready\n")
    subprocess.run(["docker", "-H", docker_engine.unix, "stop", task.name], check=True, capture_output=True)
    assert (task.end().exit_code, task.log()) == (143, "ready\nsaved\n")


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_that_ends_what_it_started_by_kill_0_ends_with_its_own_code(task: Task, code: int) -> None:
    _heard_since_before(task.engine)
    # The child says that it is ready: between fork and exec it would still have the trap, and swallow the signal.
    child = "sh -c ': >up; exec sleep 600' & until [ -e up ]; do sleep 0.1; done"
    task.start(f"trap exit TERM; trap 'trap : TERM; kill 0; exit {code}' EXIT; {child}; exit {code}")
    assert task.end().exit_code == code


def test_a_command_that_will_not_stop_is_killed(task: Task) -> None:
    task.start("trap '' TERM; echo ready; while :; do sleep 1; done")
    until(lambda: task.log() == "ready\n")
    task.engine.stop(task.name, grace=1)
    assert task.end().exit_code == 137


def test_a_signal_that_kills_the_command_is_told(task: Task) -> None:
    task.start("kill -SEGV $$")
    assert exits.classify(task.end(), 100).code == 139


def test_running_out_of_memory_is_196(task: Task) -> None:
    task.start("exec tail /dev/zero")
    exit_ = exits.classify(task.end(), 100)
    assert (exit_.code, exit_.certainty, exit_.spec.reaction) == (196, "certain", "NEVER_RETRY")


def test_a_command_that_survives_a_killed_child_succeeds(task: Task) -> None:
    task.start("tail /dev/zero; echo $?")
    status = task.end()
    assert exits.classify(status, 100).code == 0 and task.log() == "137\n"
