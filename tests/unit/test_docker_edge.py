"""The pure parts of the Docker edge: faults by their text, log frames, stamps, progress."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import threading
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest
import requests
from docker.errors import APIError
from hypothesis import given, settings
from hypothesis import strategies as st
from paramiko import BadHostKeyException, PKey, SSHException

from clusters.engines.docker import connect as ways
from clusters.engines.docker import runtime
from clusters.engines.docker.connect import open_client, wanted_version
from clusters.engines.docker.errors import Step, fault_of, fault_of_text
from clusters.engines.docker.images import Layers
from clusters.engines.docker.logs import Frames, unix_stamp
from clusters.engines.docker.request import AZURE, archive, archived_files, create_arguments, secret_lines
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.docker.status import DOUBTED, MOST, LastSeen, disk_in, disk_of, due, inspected
from clusters.engines.logs.chunks import CHUNK
from clusters.engines.logs.stamps import moment
from clusters.engines.runtime import (
    LABEL_HOLD,
    LOG_MARK,
    LOOK_CLOSER,
    ContainerRequest,
    ContainerStatus,
    DiskUse,
    File,
    LogChunk,
    Phase,
    RuntimeFault,
)
from clusters.engines.runtime import FaultReason as R
from clusters.engines.sample_image import is_static
from tests.contract_runtime import resumed
from tests.helpers import LIMIT, examples

# --- faults ---

SAID: list[tuple[Step, str, R, bool]] = [
    ("pull", 'Head "http://a:5001/v2/x/manifests/1": no basic auth credentials', R.IMAGE_DENIED, True),
    ("pull", "unauthorized: authentication required", R.IMAGE_DENIED, True),
    ("pull", "pull access denied for x, repository does not exist or may require 'docker login'", R.IMAGE_DENIED, True),
    ("pull", "manifest for a:5000/x:1 not found: manifest unknown: manifest unknown", R.IMAGE_MISSING, True),
    ("pull", "no matching manifest for linux/arm64 in the manifest list entries", R.IMAGE_MISSING, True),
    ("pull", "invalid reference format: repository name must be lowercase", R.IMAGE_NAME, True),
    ("pull", 'Get "http://a/v2/": dial tcp 1.2.3.4:80: connect: connection refused', R.REGISTRY_UNREACHABLE, False),
    ("pull", "dial tcp: lookup registry on 1.1.1.1:53: no such host", R.REGISTRY_UNREACHABLE, False),
    ("pull", "net/http: TLS handshake timeout", R.REGISTRY_UNREACHABLE, False),
    ("pull", "toomanyrequests: You have reached your pull rate limit", R.PULL_FAILED, False),
    ("pull", "filesystem layer verification failed for digest sha256:12", R.PULL_FAILED, False),
    ("pull", "write /var/lib/docker/tmp/x: no space left on device", R.PULL_FAILED, False),
    ("pull", "something never heard of", R.PULL_FAILED, False),
    ("start", "Bind for 0.0.0.0:8080 failed: port is already allocated", R.PORT_TAKEN, False),
    ("start", 'could not select device driver "" with capabilities: [[gpu]]', R.GPU_MISSING, False),
    ("start", "nvidia-container-cli: device error: 7: unknown device: unknown", R.GPU_MISSING, False),
    ("start", "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4", R.GPU_DRIVER, False),
    ("start", 'exec: "/no/such": stat /no/such: no such file or directory: unknown', R.COMMAND_MISSING, True),
    ("create", "Minimum memory limit allowed is 6MB", R.REFUSED, True),
    ("start", 'exec: "docker-init": executable file not found in $PATH', R.NODE_BROKEN, False),
    ("start", 'failed to start shim: exec: "containerd-shim-runc-v2": executable file not found', R.NODE_BROKEN, False),
    ("create", "mkdir /var/lib/docker/overlay2/x: no space left on device", R.NODE_BROKEN, False),
    ("start", 'exec: "nvidia-container-runtime-hook": executable file not found in $PATH', R.GPU_MISSING, False),
    ("start", "Minimum: mkdir /sys/fs/cgroup/memory/docker/x: no such file or directory: unknown", R.REFUSED, False),
    ("start", "No such container: longshore-x", R.GONE, True),
    ("call", "can not get logs from container which is dead or marked for removal", R.GONE, True),
    (
        "call",
        "connection error: desc = dial unix:///run/containerd/containerd.sock: code = Unavailable",
        R.UNREACHABLE,
        False,
    ),
]


@pytest.mark.parametrize("step,said,reason,permanent", SAID)
def test_it_tells_what_an_engine_means(step: Step, said: str, reason: R, permanent: bool) -> None:
    fault = fault_of_text(said, "unix:///x", step, "team/image:1", bad="Minimum" in said)
    assert (fault.reason, fault.permanent) == (reason, permanent)
    assert step != "pull" or "team/image:1" in fault.sentence


def test_it_shows_no_password_of_an_address() -> None:
    assert "hunter2" not in fault_of_text("Get https://bob:hunter2@registry/v2/: EOF", "e", "pull", "i").sentence


@pytest.mark.parametrize(
    "error,words",
    [
        (requests.ConnectionError(FileNotFoundError(2, "No such file or directory")), "no such socket"),
        (requests.ConnectionError(PermissionError(13, "Permission denied")), "may not open"),
        (requests.ReadTimeout("Read timed out. (read timeout=15)"), "did not answer in time"),
        (requests.exceptions.SSLError("CERTIFICATE_VERIFY_FAILED"), "not from the CA"),
        (ConnectionRefusedError(111, "Connection refused"), "nothing listens"),
        (SSHException("Server 'gpu-01' not found in known_hosts"), "log in there once with ssh"),
        (BadHostKeyException("gpu-01", PKey(), PKey()), "not the one in ~/.ssh/known_hosts"),
        (EOFError(), "the connection broke"),
    ],
)
def test_it_says_what_is_wrong_on_the_way(error: Exception, words: str) -> None:
    fault = fault_of(error, "unix:///run/docker.sock")
    assert fault.reason is R.UNREACHABLE and words in fault.sentence and "unix:///run/docker.sock" in fault.sentence


def test_an_answer_of_the_engine_is_not_a_lost_connection() -> None:
    answer = requests.Response()
    answer.status_code = 400
    fault = fault_of(APIError("no", response=answer, explanation="bad thing"), "e", "create")
    assert (fault.reason, fault.permanent) == (R.REFUSED, True)


# --- containers that are kept for debugging ---


@pytest.mark.parametrize("shell", ["bash", "dash", "busybox"])
def test_secrets_arrive_whole_for_their_user_alone_and_only_the_command_s_own_input_is_left(
    shell: str, tmp_path: Path
) -> None:
    names = [f"{tmp_path}/it's a key", f"{tmp_path}/token"]
    contents = [bytes(range(256)), b" -----BEGIN\\n %s \n\nEND "]
    files = [File(name, content, secret=True) for name, content in zip(names, contents, strict=True)]
    asked = ContainerRequest("a", "b", ("/bin/sh", "-c", "cat; umask; env"), files=tuple(files))
    made = create_arguments(docker.APIClient(version="1.41"), asked, fuse=False)
    assert made["stop_signal"] == "SIGTERM", "an image may say another one"
    assert made["stdin_open"] and archived_files(asked) == []
    program = [shutil.which(shell) or pytest.skip(f"no {shell}"), *(["sh"] if shell == "busybox" else [])]
    run = partial(subprocess.run, [*program, *made["command"][1:]], capture_output=True, umask=0o022, env={})
    done = run(input=secret_lines(files) * 2)  # as two workers send them that both start it
    assert [Path(name).read_bytes() for name in names] == contents
    assert [Path(name).stat().st_mode & 0o777 for name in names] == [0o600, 0o600]
    assert done.returncode == 0 and b"BEGIN" not in done.stdout and b"0022" in done.stdout
    assert run(input=secret_lines(files)[:-2]).returncode == 255


PLAIN = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SYS_CHROOT"}
PLAIN |= {"NET_BIND_SERVICE", "AUDIT_WRITE"}


@pytest.mark.parametrize(
    "security,hold,more,off",
    [
        ("default", "", set(), False),
        ("default", "/pai/held", {"SYS_PTRACE"}, False),
        ("pai", "", {"SYS_ADMIN", "DAC_READ_SEARCH"}, False),
        ("pai", "/pai/held", {"SYS_ADMIN", "DAC_READ_SEARCH", "SYS_PTRACE"}, True),
    ],
)
def test_it_keeps_few_capabilities_and_debuggers_work_where_somebody_looks_around(
    security: Any, hold: str, more: set[str], off: bool
) -> None:
    request = ContainerRequest("a", "b", ("c",), hold_file=hold, security=security)
    made = create_arguments(docker.APIClient(version="1.41"), request, fuse=False)
    assert made["host_config"]["CapDrop"] == ["ALL"]
    assert set(made["host_config"]["CapAdd"]) == PLAIN | more
    assert ("no-new-privileges" in made["host_config"]["SecurityOpt"]) is (security == "default")
    assert ("seccomp=unconfined" in made["host_config"]["SecurityOpt"]) is off
    assert (made["healthcheck"] == {"test": ["NONE"]}) is not bool(hold)


def test_infiniband_comes_with_what_programs_need_to_use_it() -> None:
    request = ContainerRequest("a", "b", ("c",), rdma=True)
    host = create_arguments(docker.APIClient(version="1.41"), request, fuse=False)["host_config"]
    assert set(host["CapAdd"]) == PLAIN | {"IPC_LOCK"} and host["SecurityOpt"] == ["no-new-privileges"]
    assert [device["PathOnHost"] for device in host["Devices"]] == ["/dev/infiniband"]
    assert host["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert {mount["Target"]: mount["ReadOnly"] for mount in host["Mounts"]} == dict.fromkeys(AZURE, True)
    plain = create_arguments(docker.APIClient(version="1.41"), ContainerRequest("a", "b", ("c",)), fuse=True)
    assert not {"Devices", "Ulimits", "Mounts"} & set(plain["host_config"])


@pytest.mark.parametrize(
    "label,status,health,held",
    [
        ("1", "running", {"Status": "unhealthy", "Log": [{"Output": ""}, {"Output": "3\n"}]}, (True, 3)),
        (
            "1",
            "running",
            {"Status": "unhealthy", "Log": [{"Output": "timeout (30s)"}]},
            (True, None),
        ),
        ("1", "running", {"Status": "unhealthy", "Log": None}, (True, None)),
        ("1", "running", {"Status": "starting", "Log": []}, (False, None)),
        ("1", "exited", {"Status": "unhealthy", "Log": [{"Output": "3\n"}]}, (False, None)),
        ("", "running", {"Status": "unhealthy", "Log": [{"Output": "3\n"}]}, (False, None)),
        ("1", "running", None, (False, None)),
    ],
)
def test_it_reads_the_hold_and_its_code_from_the_health_check(label: str, status: str, health: Any, held: Any) -> None:
    found = inspected(answer(Status=status, StartedAt=SOME_DAY, Health=health, labels={LABEL_HOLD: label}))
    assert (found.held, found.held_code) == held


# --- what an inspection says ---

NEVER, SOME_DAY = "0001-01-01T00:00:00Z", "2026-11-20T10:00:00Z"


def answer(labels: dict[str, str] | None = None, **state: Any) -> dict[str, Any]:
    nothing = {"ExitCode": 0, "OOMKilled": False, "Error": "", "StartedAt": NEVER, "FinishedAt": NEVER}
    return {"Id": "x", "Name": "/x", "Config": {"Labels": labels}, "State": nothing | state}


def test_it_reads_how_full_a_disk_is_where_the_storage_driver_says_so() -> None:
    told = [["Pool Name", "docker-pool"], ["Data Space Used", "2.5 GB"], ["Data Space Total", "107.4 GB"]]
    assert disk_in({"DriverStatus": told}) == DiskUse(2_500_000_000, 107_400_000_000)
    assert disk_in({"DriverStatus": [["Backing Filesystem", "extfs"], ["odd"]]}) is None
    assert disk_in({"DriverStatus": None}) is None


def test_it_adds_up_images_and_containers_where_nobody_knows_how_large_the_disk_is() -> None:
    answer = {"LayersSize": 1000, "Images": [{"Size": 900}], "Containers": [{"SizeRw": 20}, {"SizeRw": None}, {}]}
    assert disk_of(answer) == DiskUse(1020)
    assert disk_of({"LayersSize": 0, "Containers": None}) == DiskUse(0)


@pytest.mark.parametrize("status", ["created", "removing", "dead"])
def test_a_start_that_was_refused_is_no_end_while_its_container_goes(status: str) -> None:
    found = inspected(answer(Status=status, ExitCode=128, Error="could not select device driver"))
    assert (found.phase, found.exit_code, found.finished_at) == (Phase.CREATED, None, None)


def test_a_program_that_ended_before_its_engine_had_stamped_the_start_has_not_ended_before_it_began() -> None:
    earlier, later = "2026-01-05T10:00:00.143924Z", "2026-01-05T10:00:00.144883Z"
    found = inspected(answer(Status="exited", StartedAt=later, FinishedAt=earlier))
    assert found.finished_at == found.started_at == moment(later)
    found = inspected(answer(Status="exited", StartedAt=earlier, FinishedAt=later))
    assert found.finished_at == moment(later)


@pytest.mark.parametrize("status", ["exited", "removing", "dead"])
def test_what_ran_has_ended_also_while_it_is_removed(status: str) -> None:
    found = inspected(answer(Status=status, ExitCode=3, StartedAt=SOME_DAY, FinishedAt=SOME_DAY))
    assert (found.phase, found.exit_code) == (Phase.EXITED, 3)


def test_255_is_what_docker_says_of_a_container_that_was_lost_with_its_host() -> None:
    found = inspected(answer(Status="exited", ExitCode=255, StartedAt=SOME_DAY, FinishedAt=SOME_DAY))
    assert (found.phase, found.exit_code, found.lost) == (Phase.EXITED, None, True)


class WithoutFuse(DockerRuntime):
    """A node without /dev/fuse, in the words of Docker 20.10."""

    tries = 0

    def _ensure(self, request: ContainerRequest, *_: Any) -> ContainerStatus:
        self.tries += 1
        if self._fuse and request.security == "pai":
            said = (
                'error gathering device information while adding custom device "/dev/fuse": no such file or directory'
            )
            raise RuntimeFault(said, reason=R.REFUSED)
        return ContainerStatus("1", request.name, Phase.RUNNING, {})


def test_a_node_without_fuse_is_asked_for_it_once() -> None:
    node = WithoutFuse("unix:///nowhere")
    for tries, security in ((1, "default"), (3, "pai"), (4, "pai")):
        node.ensure(ContainerRequest("a", "b", ("c",), security=security))  # type: ignore[arg-type]
        assert node.tries == tries


def seen(number: int, at: float, phase: Phase = Phase.RUNNING) -> LastSeen:
    return LastSeen(ContainerStatus(f"{number}", f"n{number}", phase, {}), at)


def test_running_containers_are_inspected_anew_a_few_in_each_list() -> None:
    crowd = [seen(number, at=100.0 + number / 1000) for number in range(3 * MOST)]
    assert due(crowd, 100.0 + LOOK_CLOSER - 1, doubted=False) == []
    assert due(reversed(crowd), 200.0, doubted=False) == [str(number) for number in range(MOST)]
    assert due([seen(1, 0, Phase.EXITED), seen(2, 0, Phase.CREATED), seen(3, 0)], 200.0, doubted=False) == ["3"]


def test_a_doubted_list_inspects_sooner_and_not_at_every_event() -> None:
    assert due([seen(1, 100.0), seen(2, 99.9 - DOUBTED)], 100.0, doubted=True) == ["2"]


# --- logs ---

# Entries as an engine writes them: rising stamps, a long line as several entries of one stamp.
ENTRIES = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 1, 80, 16_000])), max_size=12).map(
    lambda runs: [
        (f"2026-01-01T00:00:00.{number:09d}Z", bytes([65 + number % 26]) * size)
        for number, (parts, size) in enumerate(runs)
        for _ in range(parts)
    ]
)


def frames(entries: list[tuple[str, bytes]]) -> bytes:
    payloads = [at.encode() + b" " + data for at, data in entries]
    return b"".join(bytes([1, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload for payload in payloads)


def chunks_of(data: bytes, cut: int, flushing: bool) -> list[LogChunk]:
    reader, chunks = Frames(), []
    for start in range(0, len(data), cut):
        chunks += reader.feed(data[start : start + cut])
        if flushing:
            chunks += reader.flush()
    return [*chunks, *reader.flush()]


@settings(max_examples=examples(40), deadline=None)
@given(ENTRIES, st.sampled_from([50, 4096, 200_000]), st.booleans())
def test_frames_lose_and_add_nothing(entries: list[tuple[str, bytes]], cut: int, flushing: bool) -> None:
    chunks = chunks_of(frames(entries), cut, flushing)
    assert b"".join(chunk.data for chunk in chunks) == b"".join(data for _, data in entries)
    assert all(len(chunk.data) <= CHUNK for chunk in chunks)


@settings(max_examples=examples(40), deadline=None)
@given(ENTRIES, st.sampled_from([100, 4096, 200_000]), st.sampled_from([100, 4096, 200_000]), st.integers(0, 30))
def test_a_reader_resumes_at_any_chunk(entries: list[tuple[str, bytes]], cut: int, cut_later: int, seen: int) -> None:
    at, taken, got = "", 0, b""
    for chunk in chunks_of(frames(entries), cut, True)[:seen]:
        at, taken = (at, taken + len(chunk.data)) if chunk.at == at else (chunk.at, len(chunk.data))
        got += chunk.data
    later = chunks_of(frames([entry for entry in entries if entry[0] >= at]), cut_later, False)
    rest = b"".join(chunk.data for chunk in resumed(iter(later), at, taken))
    assert got + rest == b"".join(data for _, data in entries)


def frame(text: bytes, at: str = "2026-01-01T00:00:05.000000000Z", stream: int = 1) -> bytes:
    payload = (at.encode() + b" " if stream != 3 else b"") + text
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def test_stamps_that_go_back_begin_a_chunk() -> None:
    stamps = [f"2026-01-01T00:00:0{second}.000000000Z" for second in (1, 2, 1)]
    chunks = chunks_of(b"".join(frame(b"a", at) for at in stamps), 10_000, False)
    assert [(chunk.at, len(chunk.data)) for chunk in chunks if chunk.at < stamps[1]] == [(stamps[0], 2), (stamps[2], 1)]


def test_a_log_that_the_engine_cannot_read_on_has_no_end() -> None:
    reader, got = Frames(), list[LogChunk]()
    with pytest.raises(RuntimeFault, match="invalid character") as raised:
        for chunk in reader.feed(frame(b"one\n") + frame(b"Error grabbing logs: invalid character", stream=3)):
            got.append(chunk)
    assert raised.value.reason is R.REFUSED
    assert b"".join(chunk.data for chunk in got) == b"one\n"


@pytest.mark.parametrize("cut", [1, 7, 60, 1000])
@pytest.mark.parametrize("marked", [True, False])
def test_a_log_without_its_mark_has_lost_its_head(marked: bool, cut: int) -> None:
    asked: list[str] = []
    reader = Frames(lambda at: bool(asked.append(at) or True))  # type: ignore[func-returns-value]
    data = (frame(f"{LOG_MARK}\n".encode()) if marked else b"") + frame(b"a\n") + frame(b"b\n")
    chunks = [chunk for start in range(0, len(data), cut) for chunk in reader.feed(data[start : start + cut])]
    chunks += reader.flush()
    assert b"".join(chunk.data for chunk in chunks) == b"a\nb\n"
    assert [chunk.beheaded for chunk in chunks] == [not marked] + [False] * (len(chunks) - 1)
    assert len(asked) == (0 if marked else 1)


@pytest.mark.parametrize(
    "at,unix",
    [
        ("2026-11-20T23:39:49.681397685Z", "1795217989.681397685"),
        ("2026-11-20T23:39:49.5Z", "1795217989.500000000"),
        ("2026-11-20T23:39:49Z", "1795217989.000000000"),
    ],
)
def test_a_stamp_keeps_its_nanoseconds(at: str, unix: str) -> None:
    assert unix_stamp(at) == unix


# --- ways ---


@pytest.mark.parametrize("endpoint", ["tcp://h:port", "ssh://", "tcp://", "http://h", "tcp://192.0.2.1:2375"])
def test_it_refuses_an_endpoint_that_cannot_be_one(endpoint: str) -> None:
    with pytest.raises(RuntimeFault) as raised:
        open_client(endpoint, None, "1.41", 1)
    assert raised.value.permanent


def test_it_says_that_the_keys_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFault, match="TLS keys") as raised:
        DockerRuntime("tcp://192.0.2.1:2376", tmp_path).info()
    assert raised.value.permanent


class _Answers(BaseHTTPRequestHandler):
    said: dict[str, str] = {}

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.said).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    "said,words",
    [({}, "no Docker engine"), ({"ApiVersion": "1.39", "Version": "18.09"}, "Docker 18.09; Longshore needs 20.10")],
)
def test_it_says_what_else_answers(said: dict[str, str], words: str) -> None:
    with HTTPServer(("127.0.0.1", 0), type("Said", (_Answers,), {"said": said})) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(RuntimeFault, match=words):
            DockerRuntime(f"tcp://127.0.0.1:{server.server_port}", timeout=LIMIT).info()
        thread.join(LIMIT)


def test_an_answer_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "MOST_OF_AN_ANSWER", 1 << 20)
    with HTTPServer(("127.0.0.1", 0), type("Said", (_Answers,), {"said": {"ApiVersion": "1" * (2 << 20)}})) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(RuntimeFault, match="more than 1 MB"):
            DockerRuntime(f"tcp://127.0.0.1:{server.server_port}", timeout=LIMIT).info()
        thread.join(LIMIT)


IDEAL = {"ID": "x", "Name": "n1", "ServerVersion": "20.10", "NCPU": 8, "MemTotal": 2**30}


@pytest.mark.parametrize(
    "said",
    [{}, {"NCPU": float("inf")}, {"NCPU": 10**300}, {"MemTotal": -1}, {"Swarm": [1]}, {"ID": "a\0"}, {"NCPU": {}}],
)
def test_an_engine_that_makes_no_sense_is_none(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {**IDEAL, **said} if said else [[]]
    engine = DockerRuntime("tcp://127.0.0.1:1")
    asked = SimpleNamespace(info=lambda: answer)
    monkeypatch.setattr(engine, "_quick", lambda: nullcontext(asked))
    monkeypatch.setattr(runtime, "ask", lambda *_: SimpleNamespace(json=lambda: []))
    with pytest.raises(RuntimeFault, match="no Docker engine"):
        engine.info()


@pytest.mark.parametrize(
    "oldest,newest,spoken", [("1.12", "1.41", "1.41"), ("1.24", "1.48", "1.41"), ("1.44", "1.52", "1.44")]
)
def test_it_speaks_a_version_the_engine_takes(oldest: str, newest: str, spoken: str) -> None:
    said = {"ApiVersion": newest, "MinAPIVersion": oldest}
    with HTTPServer(("127.0.0.1", 0), type("Said", (_Answers,), {"said": said})) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        client = open_client(f"tcp://127.0.0.1:{server.server_port}", None, "1.41", LIMIT)
        assert wanted_version(client) == spoken
        client.close()
        thread.join(LIMIT)


# --- values ---


def test_the_year_one_means_never() -> None:
    assert moment("0001-01-01T00:00:00Z") is None
    assert moment("2026-11-20T23:48:12.037235999Z") == datetime(2026, 11, 20, 23, 48, 12, 37235, UTC)
    assert moment("2026-11-20T23:48:12+01:00") == datetime(2026, 11, 20, 22, 48, 12, tzinfo=UTC)


def test_progress_sums_the_layers() -> None:
    layers = Layers()
    layers.add({"id": "a", "status": "Downloading", "progressDetail": {"current": 10_000_000, "total": 30_000_000}})
    layers.add({"id": "b", "status": "Downloading", "progressDetail": {"current": 5_000_000, "total": 5_000_000}})
    assert layers.progress().text == "pulling 15.0 MB of 35.0 MB"
    layers.add({"id": "a", "status": "Pull complete"})
    assert (layers.progress().done, layers.progress().total) == (35_000_000, 35_000_000)


def test_large_files_go_through_the_disk() -> None:
    with archive([File("/a", bytes(9 << 20))]) as tar:
        assert hasattr(tar, "name") and tar.read(1) == b"a"
    gc.collect()


def test_a_script_is_no_static_program(tmp_path: Path) -> None:
    script = tmp_path / "busybox"
    script.write_text("#!/bin/sh\n")
    assert not is_static(script)
