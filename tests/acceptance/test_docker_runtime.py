"""The contract on a real engine, by every way in, and what only a real one does."""

from __future__ import annotations

import hashlib
import io
import json
import resource
import socket
import tarfile
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest

from clusters.engines.docker import images
from clusters.engines.docker import runtime as docker_runtime
from clusters.engines.docker.request import secrets_sent
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.runtime import FaultReason, File, Phase, Progress, RuntimeFault
from clusters.engines.sample_image import SAMPLE_IMAGE, ensure_sample_image
from tests.acceptance.docker_lab import DockerLab, runtime_at
from tests.bed.docker_bed import BedNode
from tests.bed.registry import Registry
from tests.contract_runtime import Program, RuntimeContract, ended, found, left_in_created, request, text
from tests.helpers import LIMIT, quick, until


@pytest.fixture(params=["unix", "tls", "ssh"])
def way(request: pytest.FixtureRequest) -> str:
    """To the engine."""
    return str(request.param)


@pytest.fixture
def lab(
    way: str, docker_engine: BedNode, sample_image: str, registry: Registry, unhurried: None
) -> Iterator[DockerLab]:
    lab = DockerLab(runtime_at(docker_engine, way), docker_engine, f"{registry.address}/team/absent:1")
    yield lab
    lab.clear()


@pytest.fixture
def near(docker_engine: BedNode, sample_image: str, unhurried: None) -> Iterator[DockerLab]:
    """By the unix socket only."""
    lab = DockerLab(runtime_at(docker_engine, "unix"), docker_engine)
    yield lab
    lab.clear()


@pytest.fixture
def far(docker_nodes: list[BedNode], unhurried: None) -> Iterator[DockerLab]:
    """A host with pretended GPUs, over TLS."""
    node = docker_nodes[0]
    lab = DockerLab(runtime_at(node, "tls"), node)
    yield lab
    lab.clear()


@pytest.fixture
def stranger(lab: DockerLab) -> str:
    lab.sdk.containers.create(SAMPLE_IMAGE, ["true"], name="somebody-elses", network_mode="host")
    return "somebody-elses"


@pytest.mark.parametrize("way", ["unix"])
class TestContract(RuntimeContract):
    pass


@pytest.mark.parametrize("way", ["tls", "ssh"])
class TestFarWays:
    """Of the contract, what hangs on the way: bytes stream, a connection is held, or there is none. What an engine
    answers, it answers by every way."""

    test_it_runs_a_container_to_its_end = RuntimeContract.test_it_runs_a_container_to_its_end
    test_it_unpacks_tars_in_the_container = RuntimeContract.test_it_unpacks_tars_in_the_container
    test_it_says_that_an_image_does_not_exist = RuntimeContract.test_it_says_that_an_image_does_not_exist
    test_it_gives_a_long_line_whole_in_small_chunks = RuntimeContract.test_it_gives_a_long_line_whole_in_small_chunks
    test_it_follows_a_log_until_the_container_ends = RuntimeContract.test_it_follows_a_log_until_the_container_ends
    test_it_lets_another_thread_close_a_follower = RuntimeContract.test_it_lets_another_thread_close_a_follower
    test_it_wakes_when_a_container_ends = RuntimeContract.test_it_wakes_when_a_container_ends
    test_it_leads_to_what_listens_on_its_host = RuntimeContract.test_it_leads_to_what_listens_on_its_host
    test_it_says_that_nothing_listens_on_a_port = RuntimeContract.test_it_says_that_nothing_listens_on_a_port


# --- what a container gets ---


def test_it_limits_cpu_memory_shm_and_processes(near: DockerLab) -> None:
    asked = request(near, cpus=8.5, memory_mb=64, shm_mb=16, pids_limit=50)
    near.runtime.ensure(asked)
    host = near.host_config(asked.name)
    assert (host["CpuPeriod"], host["CpuQuota"]) == (100_000, 850_000)
    assert (host["Memory"], host["MemorySwap"], host["ShmSize"]) == (64 << 20, 64 << 20, 16 << 20)
    assert (host["PidsLimit"], host["Init"], host["AutoRemove"]) == (50, True, False)
    assert host["OomScoreAdj"] == 1000
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert host["LogConfig"]["Type"] == "json-file" and host["LogConfig"]["Config"]["max-size"] == "128m"
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["CapDrop"] == ["ALL"]


def test_it_says_that_memory_ran_out(near: DockerLab) -> None:
    for _ in range(3):  # an engine under load may hear of the exit before it hears that memory ran out
        asked = request(near, argv=("sh", "-c", "tail /dev/zero"), memory_mb=32)
        near.runtime.ensure(asked)
        status = ended(near, asked.name)
        assert status.exit_code == 137
        if status.oom_killed:
            return
    pytest.fail("the engine never said that memory ran out")


def test_it_gives_the_environment_and_clears_the_entrypoint(near: DockerLab) -> None:
    container = near.sdk.containers.create(SAMPLE_IMAGE, ["true"])
    container.commit("longshore-test/entry", "1", changes='ENTRYPOINT ["false"]')
    said = near.shell("echo $A; id -u", image="longshore-test/entry:1", env={"A": "b c$d"})
    assert said == "b c$d\n0\n"


def test_it_keeps_the_folders_of_the_image_as_they_are(near: DockerLab) -> None:
    files = (File("/tmp/in-tmp", b"1", 0o600), File("/pai/deep/er", b"2"))
    said = near.shell("stat -c %a /tmp /tmp/in-tmp /pai /pai/deep/er; id -u nobody", files=files)
    assert said.split() == ["1777", "600", "755", "644", "65534"]


def test_it_gives_the_profile_of_v1_what_mounts_need(near: DockerLab) -> None:
    script = "mount -t tmpfs none /tmp && echo mounted; ls /dev/fuse 2>&1"
    assert near.shell(script, security="pai").startswith("mounted\n")
    assert "mounted" not in near.shell(script)


def test_it_does_without_fuse_where_the_node_has_none(near: DockerLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.engines.docker.request.FUSE", "/dev/fuse-that-is-not-there")
    assert near.shell("echo ran", security="pai") == "ran\n"


def test_it_says_how_full_its_disk_is(lab: DockerLab, monkeypatch: pytest.MonkeyPatch) -> None:
    found = lab.runtime.disk_use()
    assert 0 < found.used < (found.total or found.used + 1)
    monkeypatch.setattr(docker_runtime.socket, "gethostname", lambda: "another-host")
    assert lab.runtime.disk_use().used > 0


def test_it_publishes_ports_with_equal_numbers(near: DockerLab) -> None:
    asked = request(near, argv=("sh", "-c", "httpd -f -p 24680 -h /etc"), network="bridge", ports=(24680,))
    near.runtime.ensure(asked)
    said = until(lambda: near.node.run("sh", "-c", f"curl -s http://{near.node.address}:24680/passwd || :"))
    assert said.startswith("root:")


def test_it_puts_a_large_file_in(lab: DockerLab) -> None:
    content = bytes(range(256)) * 80_000  # 20 MB
    asked = request(lab, files=(File("/pai/code/large", content),))
    with quick(20, "20 MB are put in"):
        lab.runtime.ensure(asked)
    assert lab.read_file(asked.name, "/pai/code/large") == content


def test_it_hands_out_gpus_by_id(far: DockerLab) -> None:
    assert "NVIDIA_VISIBLE_DEVICES=1,3" in far.shell("env; ls /dev", gpu_ids=("1", "3"))
    asked = request(far, gpu_ids=("7",))
    with pytest.raises(RuntimeFault) as raised:
        far.runtime.ensure(asked)
    assert raised.value.reason is FaultReason.GPU_MISSING
    assert found(far, asked.name) is None


# --- secrets ---

SECRET = b"top-secret \\n\0\xff\n" * 300


def test_a_secret_is_in_its_file_and_nowhere_else(lab: DockerLab) -> None:
    look = "umask; stat -c %a /new/key; wc -c </new/key; md5sum </new/key; cat; cat /proc/*/environ /proc/*/cmdline"
    asked = request(lab, argv=("sh", "-c", look), files=(File("/new/key", SECRET, secret=True),))
    left_in_created(lab, asked)  # whoever adopts it sends them
    lab.runtime.ensure(asked)
    assert ended(lab, asked.name).exit_code == 0
    said = text(lab.runtime.logs(asked.name, "stdout"))
    assert said.split()[:4] == [b"0022", b"600", b"%d" % len(SECRET), hashlib.md5(SECRET).hexdigest().encode()]
    assert b"top-secret" not in said
    assert "top-secret" not in json.dumps(lab.sdk.api.inspect_container(asked.name))


def test_a_worker_that_dies_before_the_start_takes_no_secret_with_it(near: DockerLab) -> None:
    asked = request(near, argv=("sh", "-c", "cat /new/key"), files=(File("/new/key", b"secret", secret=True),))
    left_in_created(near, asked)
    with near.runtime._slow() as api, secrets_sent(api, near.node.unix, asked):
        pass
    near.runtime.ensure(asked)
    assert ended(near, asked.name).exit_code == 0
    assert text(near.runtime.logs(asked.name, "stdout")) == b"secret"


def test_a_container_whose_secrets_were_cut_off_says_that_it_was_lost(near: DockerLab) -> None:
    asked = request(near, argv=("sh", "-c", "echo ran"), files=(File("/new/key", b"secret", secret=True),))
    left_in_created(near, asked)
    with near.runtime._slow() as api:
        stream = api.attach_socket(asked.name, {"stdin": 1, "stream": 1})
        api.start(asked.name)
        stream._response.close() if hasattr(stream, "_response") else stream.close()
    assert (ended(near, asked.name).lost, text(near.runtime.logs(asked.name, "stdout"))) == (True, b"")


# --- pulls ---


def pull_fault(lab: DockerLab, image: str, **more: Any) -> RuntimeFault:
    with pytest.raises(RuntimeFault) as raised:
        lab.runtime.ensure(request(lab, image=image, **more))
    assert "secret" not in raised.value.sentence
    return raised.value


def start_fault(lab: DockerLab, image: str, **more: Any) -> None:
    """The test images hold one file and no shell: having got as far as a start is success of the pull."""
    lab.runtime.ensure(request(lab, image=image, argv=("/content",), **more))


def test_it_tells_the_faults_of_a_pull_apart(near: DockerLab, registry: Registry, private_registry: Registry) -> None:
    private, broken = private_registry.add("team/image"), registry.add("broken/image")
    away = registry.address.replace(":5000", ":5999")
    assert pull_fault(near, private).reason is FaultReason.IMAGE_DENIED
    assert pull_fault(near, private, auth=("bed", "secret2")).reason is FaultReason.IMAGE_DENIED
    assert pull_fault(near, f"{registry.address}/team/absent:1").reason is FaultReason.IMAGE_MISSING
    assert pull_fault(near, "Upper/Case").reason is FaultReason.IMAGE_NAME
    unreachable = pull_fault(near, f"{away}/team/image:1")
    assert (unreachable.reason, unreachable.permanent) == (FaultReason.REGISTRY_UNREACHABLE, False)
    assert pull_fault(near, broken).reason is FaultReason.PULL_FAILED


def test_a_registry_that_hangs_is_one_that_cannot_be_reached(
    near: DockerLab, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever waits for the pull shows meanwhile that they live, or others would begin with it."""
    monkeypatch.setattr(images, "SILENCE", 2.0)
    monkeypatch.setattr(images, "BEAT", 0.2)
    seen: list[Progress] = []
    with socket.create_server((registry.address.partition(":")[0], 0)) as silent:
        host, port = silent.getsockname()
        asked = request(near, image=f"{host}:{port}/team/image:1")
        with pytest.raises(RuntimeFault) as caught:
            near.runtime.ensure(asked, on_progress=seen.append)
    assert (caught.value.reason, caught.value.permanent) == (FaultReason.REGISTRY_UNREACHABLE, False)
    assert seen


def test_it_uses_a_password_for_this_pull_only(near: DockerLab, private_registry: Registry) -> None:
    image = private_registry.add("team/once")
    start_fault(near, image, auth=("bed", "secret"))
    near.clear()
    near.sdk.api.remove_image(image, force=True)
    assert pull_fault(near, image).reason is FaultReason.IMAGE_DENIED


def test_it_reports_progress_over_the_layers(
    near: DockerLab, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then, by a clock that goes on by half a second with each look at it."""
    seen: list[Progress] = []
    looks = count()
    monkeypatch.setattr(images, "time", SimpleNamespace(monotonic=lambda: next(looks) / 2))
    asked = request(near, image=registry.add("slow/image", 8_000_000), argv=("/content",))
    near.runtime.ensure(asked, on_progress=seen.append)
    assert any(0 < step.done < step.total and "pulling" in step.text for step in seen)
    assert seen[-1].done == seen[-1].total > 7_000_000
    assert len(seen) <= next(looks) / 2 / images.EVERY + 2, "the first, one a second, and the last"


def test_it_pulls_again_when_told_and_falls_back_on_the_copy(near: DockerLab, registry: Registry) -> None:
    image = registry.add("team/again")
    start_fault(near, image)
    start_fault(near, image)
    assert len(registry.pulls) == pulls_of_one(registry)
    start_fault(near, image, pull="always")
    assert len(registry.pulls) > pulls_of_one(registry)
    registry.close()
    seen: list[Progress] = []
    near.runtime.ensure(request(near, image=image, argv=("/content",), pull="always"), on_progress=seen.append)
    assert "copy on the node" in seen[-1].text


# --- logs ---


def test_it_reads_a_hundred_megabytes_in_little_memory(near: DockerLab) -> None:
    line = "0123456789" * 100
    script = f"yes {line} | head -n 90000; head -c 10000000 /dev/zero | tr '\\0' x; echo"
    asked = request(near, argv=("sh", "-c", script))
    near.runtime.ensure(asked)
    until(lambda: found(near, asked.name).phase is Phase.EXITED, 120)  # type: ignore[union-attr]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = largest = 0
    for chunk in near.runtime.logs(asked.name, "stdout"):
        size += len(chunk.data)
        largest = max(largest, len(chunk.data))
    assert size == 90_000 * 1001 + 10_000_001
    assert largest <= 64 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB


def test_the_whole_of_a_short_log_is_had_by_one_question(near: DockerLab) -> None:
    said = {"stdout": b"".join(b"line %d\n" % number for number in range(200)), "stderr": b"x" * 20_000 + b"\n"}
    short = request(near, Program(**said))
    long = request(near, Program(stdout=b"0123456789abcdef" * 70_000))
    for asked in (short, long):
        near.runtime.ensure(asked)
        ended(near, asked.name)
    whole = near.runtime.short_logs(short.name)
    assert whole is not None
    assert {stream: text(iter(chunks)) for stream, chunks in whole.items()} == said
    assert near.runtime.short_logs(long.name) is None
    assert len(text(near.runtime.logs(long.name, "stdout"))) == 70_000 * 16
    with pytest.raises(RuntimeFault) as raised:
        near.runtime.short_logs("longshore-never-was")
    assert raised.value.reason is FaultReason.GONE


def test_a_follower_sees_a_line_at_once(lab: DockerLab) -> None:
    asked = request(lab, argv=("sh", "-c", "while [ ! -e /go ]; do sleep 0.02; done; echo late; sleep 1000"))
    lab.runtime.ensure(asked)
    log = lab.runtime.logs(asked.name, "stdout", follow=True)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(next(log).data))
    reader.start()
    with io.BytesIO() as spool:
        with tarfile.open(fileobj=spool, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("go"))
        lab.sdk.api.put_archive(asked.name, "/", spool.getvalue())
    with quick(0.5, "a line comes to a follower"):
        reader.join(LIMIT)
    log.close()
    assert seen == [b"late\n"]


def test_followers_leave_room_for_questions(lab: DockerLab) -> None:
    asked = request(lab)
    lab.runtime.ensure(asked)
    logs = [lab.runtime.logs(asked.name, "stdout", follow=True) for _ in range(12)]  # a stock sshd takes 10 sessions
    with quick(2, "a list beside twelve followers"):
        assert lab.runtime.list()
    for log in logs:
        log.close()


# --- the way to the engine ---


def fault(node: BedNode, runtime: DockerRuntime) -> str:
    with pytest.raises(RuntimeFault) as raised:
        runtime.info()
    assert raised.value.reason is FaultReason.UNREACHABLE
    return raised.value.sentence


def test_it_says_why_it_cannot_reach_an_engine(docker_engine: BedNode, tmp_path: Path) -> None:
    node = docker_engine
    assert "no such socket" in fault(node, DockerRuntime(f"unix://{tmp_path}/docker.sock"))
    assert "nothing listens" in fault(node, DockerRuntime(node.tls.replace("2376", "2377"), node.tls_dir))
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_bytes((node.tls_dir / name).read_bytes())
    (tmp_path / "ca.pem").write_bytes((node.tls_dir / "cert.pem").read_bytes())
    assert "not from the CA" in fault(node, DockerRuntime(node.tls, tmp_path))
    (tmp_path / "known_hosts").touch()
    assert "host key" in fault(node, DockerRuntime(node.ssh, tmp_path))


def test_it_is_not_led_astray_by_ca_variables(docker_engine: BedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "/etc/ssl/certs/ca-certificates.crt")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert runtime_at(docker_engine, "tls").info().hostname == docker_engine.name


def test_it_finds_the_users_own_ssh_keys(docker_engine: BedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(docker_engine.bed.folder / "home"))
    assert DockerRuntime(docker_engine.ssh).info().hostname == docker_engine.name


@pytest.mark.parametrize("endpoint", ["tcp://192.0.2.1:2375", "http://192.0.2.1", "nonsense"])
def test_it_refuses_endpoints_without_protection_or_sense(endpoint: str) -> None:
    with pytest.raises(RuntimeFault) as raised:
        DockerRuntime(endpoint).info()
    assert raised.value.permanent


@pytest.mark.parametrize("harm,cure", [("cut", "heal"), ("freeze", "thaw")])
@pytest.mark.parametrize("way", ["tls", "ssh"])
def test_it_comes_back_after_a_silence(docker_nodes: list[BedNode], way: str, harm: str, cure: str) -> None:
    node = docker_nodes[1]
    folder = node.tls_dir if way == "tls" else node.ssh_dir
    runtime = DockerRuntime(getattr(node, way), folder, timeout=3.0)
    until(lambda: answers(runtime), what="it answers within its time")
    node.fault(harm)
    try:
        with quick(15, "a silence is noticed"):
            assert fault(node, runtime)
    finally:
        node.fault(cure)
    until(lambda: answers(runtime), what="it answers again")


@pytest.mark.parametrize("way", ["unix", "tls", "ssh"])
def test_it_notices_that_the_engine_went_and_finds_the_dead_after_the_crash(
    docker_nodes: list[BedNode], way: str
) -> None:
    node = docker_nodes[2]
    lab = DockerLab(runtime_at(node, way), node)
    asked = request(lab)
    lab.runtime.list()  # the first window begins here
    lab.runtime.ensure(asked)
    log = lab.runtime.logs(asked.name, "stdout", follow=True)
    ends: list[object] = []
    woken = threading.Event()
    threads = [
        threading.Thread(target=lambda: ends.append(lab.runtime.wait_event(LIMIT, woken.set))),
        threading.Thread(target=lambda: ends.append(list(log))),
    ]
    for thread in threads:
        thread.start()
    assert woken.wait(LIMIT)  # the events of the start: it watches
    node.fault("crash")
    try:
        for thread in threads:
            thread.join(LIMIT)
        assert sorted(map(str, ends)) == ["False", "[]"]
        assert not answers(lab.runtime)
    finally:
        node.fault("boot")
    until(lambda: answers(lab.runtime))
    assert ended(lab, asked.name).lost
    lab.clear()


def answers(runtime: DockerRuntime) -> bool:
    try:
        return bool(runtime.info())
    except RuntimeFault:
        return False


def pulls_of_one(registry: Registry) -> int:
    return 2  # HEAD and GET of the manifest


# --- the list ---


def test_it_asks_little_for_a_list(near: DockerLab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [request(near, program) for program in (Program(), Program(exit_code=None))]
    made = {near.runtime.ensure(each).id for each in asked}
    ended(near, asked[0].name)
    inspected: list[str] = []
    inspect = docker.APIClient.inspect_container
    monkeypatch.setattr(
        docker.APIClient, "inspect_container", lambda self, name: inspected.append(name) or inspect(self, name)
    )
    assert made <= {status.id for status in near.runtime.list()}
    assert made.isdisjoint(inspected)


# --- the sample image ---


def test_the_sample_image_is_made_once(near: DockerLab) -> None:
    near.sdk.api.remove_image(SAMPLE_IMAGE, force=True)
    assert SAMPLE_IMAGE in ensure_sample_image(near.runtime)
    assert ensure_sample_image(near.runtime) == ""


def test_the_sample_image_can_serve_and_fetch(near: DockerLab) -> None:
    script = (
        "echo hi >index.html; httpd -p 28123 -h .; wget -qO- http://localhost:28123/; echo x | nc -w1 127.0.0.1 28123"
    )
    assert near.shell(script).startswith("hi\nHTTP/1.1 400")


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_a_container_writes_the_files_handed_to_it(near: DockerLab, user: str) -> None:
    image = f"longshore-test/{user}:1"
    near.sdk.images.get(SAMPLE_IMAGE)
    container = near.sdk.api.create_container(SAMPLE_IMAGE, ["true"])
    near.sdk.api.commit(container["Id"], *image.split(":"), conf={"User": user})
    files = (File("/new/place/a", b'it\'s "$HOME"\n\n', handed=True), File("/new/place/b b", b"", handed=True))
    files = (*files, File("/kept/key", b"secret\n", secret=True))
    script = "id -un; cat /new/place/a; ls /new/place; env | grep FILE; stat -c '%U %a' /kept/key; cat /kept/key"
    said = near.shell(script, image=image, files=files)
    assert said == f'{user}\nit\'s "$HOME"\n\na\nb b\n{user} 600\nsecret\n'


def test_what_cannot_be_handed_over_is_put_there(near: DockerLab) -> None:
    files = (File("/new/a", b"x" * 130_000, handed=True), File("/new/b", b"y", handed=True))
    assert near.shell("cat /new/a /new/b", files=files) == "x" * 130_000 + "y"
