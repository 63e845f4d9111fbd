"""A real engine in trouble: what it refuses, what it forgets, and what that must not mean for a job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from docker import APIClient
from docker.types import LogConfig
from paramiko import ChannelException

from clusters.engines.docker import request as docker_request
from clusters.engines.runtime import (
    EXIT_FILE,
    LABEL_HOLD,
    ContainerStatus,
    FaultReason,
    File,
    LogChunk,
    Phase,
    RuntimeFault,
)
from jobs.logs.places import STREAMS
from tests.acceptance.docker_lab import DockerLab, runtime_at
from tests.bed.docker_bed import BedNode
from tests.contract_runtime import PREFIX, Program, found, request, text
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.fixture
def near(docker_engine: BedNode, sample_image: str) -> Iterator[DockerLab]:
    lab = DockerLab(runtime_at(docker_engine, "unix"), docker_engine)
    yield lab
    lab.clear()


def test_gpus_that_the_node_cannot_hand_out_are_never_an_end_of_the_job(
    near: DockerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[ContainerStatus] = []
    over = threading.Event()
    remove = APIClient.remove_container

    def look() -> None:
        seen.extend(status for status in near.runtime.list() if status.name.startswith(PREFIX))

    def watch() -> None:
        while not over.is_set():
            look()

    def look_and_remove(api: APIClient, name: str, **more: Any) -> None:
        look()  # after the engine has refused: nobody else may be as quick
        assert name in {status.name for status in seen}
        remove(api, name, **more)

    monkeypatch.setattr(APIClient, "remove_container", look_and_remove)
    watchers = [threading.Thread(target=watch) for _ in range(4)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(10):
            assert start_refused(near, gpu_ids=("0",)).reason is FaultReason.GPU_MISSING
    finally:
        over.set()
        for watcher in watchers:
            watcher.join(LIMIT)
    assert len({status.name for status in seen}) == 10
    assert {(status.phase, status.exit_code) for status in seen} == {(Phase.CREATED, None)}


def start_refused(lab: DockerLab, **more: Any) -> RuntimeFault:
    asked = request(lab, **more)
    with pytest.raises(RuntimeFault) as raised:
        lab.runtime.ensure(asked)
    assert found(lab, asked.name) is None
    return raised.value


def test_a_node_without_docker_init_is_not_the_images_fault(near: DockerLab) -> None:
    path = near.node.run("sh", "-c", "command -v docker-init").strip()
    near.node.run("sh", "-c", f": >/tmp/nothing; chmod 644 /tmp/nothing; mount --bind /tmp/nothing {path}")
    try:
        refused = start_refused(near)
    finally:
        near.node.run("umount", path)
    assert (refused.reason, refused.permanent) == (FaultReason.NODE_BROKEN, False), refused.sentence


_CTR = "ctr -a /run/docker/containerd/containerd.sock -n moby"


@pytest.mark.parametrize("dies", ["crash boot", "kill-dockerd start-dockerd"])
@pytest.mark.parametrize(("before", "code"), [("echo 5 >{0}", 5), (": >{0}", None), ("rm -f {0}", 0)])
def test_an_end_that_the_engine_forgot_is_no_success(
    docker_nodes: list[BedNode], dies: str, before: str, code: int | None
) -> None:
    """It dies after it has forgotten the process and before it has written down the code: it says 0 afterwards."""
    node = docker_nodes[2]
    lab = DockerLab(runtime_at(node, "unix"), node)
    write = f"mkdir -p /pai/log; {before.format(EXIT_FILE)}"
    asked = request(lab, argv=("sh", "-c", f"trap '{write}; exit 5' USR1; while :; do sleep 0.1; done"))
    lab.runtime.ensure(asked)
    lab.runtime.list()
    try:
        state = lab.sdk.api.inspect_container(asked.name)
        id, pid = state["Id"], state["State"]["Pid"]
        node.run("sh", "-c", f"kill -STOP $(cat /run/docker.pid); kill -USR1 {pid}")
        until(lambda: "STOPPED" in node.run("sh", "-c", f"{_CTR} tasks ls"))
        node.run("sh", "-c", f"{_CTR} tasks delete {id}; {_CTR} containers delete {id}")
        death, life = dies.split()
        node.fault(death)
        with pytest.raises(RuntimeFault):
            lab.runtime.list()
        node.fault(life)
        assert lab.sdk.api.inspect_container(asked.name)["State"]["ExitCode"] == 0
        ended = found(lab, asked.name)
        assert ended and ended.exit_code == code
    finally:
        lab.clear()


# --- a full disk ---


@pytest.fixture
def filled(docker_nodes: list[BedNode]) -> Iterator[Callable[[], None]]:
    """Fills the data root of the second host; it has room again afterwards."""
    node = docker_nodes[1]
    root = node.bed.folder / "nodes" / node.name / "data"

    def fill() -> None:
        fill = f"dd if=/dev/zero of={root}/fill bs=64k; dd if=/dev/zero of={root}/rest bs=512"
        node.run(
            "sh", "-c", f"mount -o remount,size=$(du -sm {root} | cut -f1)m {root} || :; ({fill}) 2>/dev/null || :"
        )

    yield fill
    node.run("sh", "-c", f"rm -f {root}/fill {root}/rest; mount -o remount,size=8g {root}")


def test_an_end_is_noticed_although_the_data_root_is_full(
    docker_nodes: list[BedNode], filled: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = docker_nodes[1]
    lab = DockerLab(runtime_at(node, "unix"), node)
    names = [request(lab, argv=("sh", "-c", "trap 'exit 3' USR1; while :; do sleep 0.1; done")) for _ in range(2)]
    for asked in names:
        lab.runtime.ensure(asked)
    lab.runtime.list()
    filled()
    try:
        for asked in names:
            lab.sdk.api.kill(asked.name, "USR1")
            until(lambda name=asked.name: lab.sdk.api.inspect_container(name)["State"]["Status"] == "exited")  # type: ignore[misc]
        mine = {asked.name for asked in names}
        rows = [row for row in lab.sdk.api.containers(all=True) if row["Names"][0].lstrip("/") in mine]
        assert [row["State"] for row in rows] == ["running"] * 2, "the engine has missed nothing"
        monkeypatch.setattr("clusters.engines.docker.status.DOUBTED", 0.0)
        assert [one.exit_code for one in lab.runtime.list(doubted=True) if one.name in mine] == [3, 3]
        fresh = runtime_at(node, "unix")
        monkeypatch.setattr("clusters.engines.docker.status.LOOK_CLOSER", 0.0)
        assert [one.exit_code for one in fresh.list() if one.name in mine] == [3, 3]
        lab.runtime.stop(names[0].name, 1)
        lab.runtime.remove(names[0].name)
        assert found(lab, names[0].name) is None
    finally:
        lab.clear()


# --- logs ---

SCRIPT = (File("/said/script", b"while [ $((n = n + 1)) -le 20000 ]; do echo line $n; done\nsleep 1000", handed=True),)


def test_a_log_that_was_rotated_away_says_that_its_head_is_gone(
    near: DockerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = request(near, Program(exit_code=0), argv=("true",), files=(File("/said/a", b"", handed=True),))
    near.runtime.ensure(short)
    monkeypatch.setattr(docker_request, "LOG", LogConfig(config={"max-size": "100k", "max-file": "3"}))
    asked = request(near, argv=("sh", "-c", "sleep 2; . /said/script"), files=SCRIPT)
    near.runtime.ensure(asked)
    until(lambda: b"line 20000\n" in text(near.runtime.logs(asked.name, "stdout")), 60)
    chunks = list(near.runtime.logs(asked.name, "stdout"))
    assert [chunk.beheaded for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    assert b"line 1\n" not in text(iter(chunks))
    assert not any(chunk.beheaded for stream in STREAMS for chunk in near.runtime.logs(short.name, stream))


def test_a_whole_log_has_nothing_in_it_but_what_the_command_wrote(near: DockerLab) -> None:
    asked = request(near, argv=("sh", "-c", ". /said/script"), files=SCRIPT)
    near.runtime.ensure(asked)
    whole = b"".join(b"line %d\n" % number for number in range(1, 20001))
    until(lambda: text(near.runtime.logs(asked.name, "stdout")) == whole, 60)
    assert list(near.runtime.logs(asked.name, "stderr")) == []
    assert next(near.runtime.logs(asked.name, "stdout")).beheaded is False


def test_a_damaged_log_does_not_pass_for_a_whole_one(near: DockerLab) -> None:
    asked = request(near, argv=("sh", "-c", "echo one; echo two; sleep 1000"))
    near.runtime.ensure(asked)
    until(lambda: text(near.runtime.logs(asked.name, "stdout")) == b"one\ntwo\n")
    path = near.sdk.api.inspect_container(asked.name)["LogPath"]
    near.node.run("sh", "-c", f"""printf %s '{{"log":"half' >>{path}""")
    got: list[LogChunk] = []
    with pytest.raises(RuntimeFault) as raised:
        got.extend(near.runtime.logs(asked.name, "stdout"))
    assert text(iter(got)) == b"one\ntwo\n"
    assert raised.value.reason is FaultReason.REFUSED and "cannot read the log" in raised.value.sentence


# --- what an image says of itself ---


def test_an_image_with_a_label_and_a_failing_health_check_is_not_held(near: DockerLab) -> None:
    made = near.sdk.api.create_container(near.image, ["true"])
    changes = [f"LABEL {LABEL_HOLD}=1", "HEALTHCHECK --interval=1s --retries=1 CMD echo 7; exit 1"]
    near.sdk.api.commit(made["Id"], "longshore-test/liar", "1", changes="\n".join(changes))
    asked = request(near, image="longshore-test/liar:1")
    near.runtime.ensure(asked)
    plain = near.sdk.containers.run("longshore-test/liar:1", ["sleep", "1000"], detach=True, network_mode="host")
    until(lambda: near.sdk.api.inspect_container(plain.id)["State"]["Health"]["Status"] == "unhealthy", 30)
    [status] = [one for one in near.runtime.list(doubted=True) if one.name == asked.name]
    assert (status.held, status.labels[LABEL_HOLD]) == (False, "")
    assert "Health" not in near.sdk.api.inspect_container(asked.name)["State"]


def test_sessions_that_sshd_has_no_more_of_cost_nobody_an_answer(docker_engine: BedNode, sample_image: str) -> None:
    """sshd allows ten on one connection, and counts those that a time-out left behind."""
    runtime = runtime_at(docker_engine, "ssh")
    runtime.info()
    with runtime._ways.quick() as api:
        transport = api.get_adapter(api.base_url).ssh_client.get_transport()
        left_behind = []
        with pytest.raises(ChannelException):
            for _ in range(11):
                left_behind.append(transport.open_session())
        assert runtime.list() == runtime.list()
    for channel in left_behind:
        channel.close()
