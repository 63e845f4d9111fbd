"""docs/examples/code/store.py against a gateway that breaks, refuses and is down; the real one is in
tests/acceptance/test_examples.py."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from tensorboard_data_server import server_binary

from tests.helpers import LIMIT, until

PROGRAM = Path(__file__).resolve().parents[2] / "docs/examples/code/store.py"
BIG = bytes(range(256)) * 40_000  # ten megabytes: more than a connection holds by itself


class Gateway(ThreadingHTTPServer):
    """``faults``: what happens to the next requests, instead of an answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.connections = 0
        self.is_earlier = False  # of a release that knows no UNPACK


class Handler(BaseHTTPRequestHandler):
    server: Gateway
    protocol_version = "HTTP/1.1"  # connections are kept

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        path, query = unquote(urlsplit(self.path).path), parse_qs(urlsplit(self.path).query)
        path, files = path.removeprefix("/webhdfs/v1"), self.server.files
        assert query["delegation"] == ["the token"]
        self.server.asked.append(f"{query['op'][0]} {path}")
        if self._has_fault():
            return
        if query["op"] == ["OPEN"]:
            return self._answer(200, files[path])
        below = {name.removeprefix(f"{path}/").split("/")[0] for name in files if name.startswith(f"{path}/")}
        if path not in files and not below:
            return self._refuse(404, "File does not exist.")
        listed = [self._status(path, name) for name in sorted(below)] or [self._status(path, "")]
        self._answer(200, json.dumps({"FileStatuses": {"FileStatus": listed}}).encode())

    def do_PUT(self) -> None:
        if not self._has_fault():
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path, files = unquote(urlsplit(self.path).path).removeprefix("/webhdfs/v1"), self.server.files
            if "op=UNPACK" not in self.path:
                files[path] = body
            elif self.server.is_earlier:
                return self._refuse(400, "Invalid value for webhdfs parameter 'op'")
            else:
                with tarfile.open(fileobj=io.BytesIO(body)) as tar:
                    files |= {f"{path}/{each.name}": cast(Any, tar.extractfile(each)).read() for each in tar}
            self._answer(201, b"")

    def _status(self, path: str, name: str) -> dict[str, object]:
        content = self.server.files.get(f"{path}/{name}" if name else path)
        kind = "DIRECTORY" if content is None else "FILE"
        return {"pathSuffix": name, "type": kind, "length": len(content or b""), "modificationTime": 1}

    def _has_fault(self) -> bool:
        match self.server.faults.pop(0) if self.server.faults else "":
            case "":
                return False
            case "down":
                self._refuse(503, "The store is down.")
            case "full":
                self._refuse(403, "The quota is reached.")
            case "breaks":
                self.send_response(200)
                self.send_header("Content-Length", str(len(BIG)))
                self.end_headers()
                self.wfile.write(BIG[:1000])
            case "closes":
                pass
        self.close_connection = True
        return True

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, json.dumps({"RemoteException": {"message": message}}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    gateway = Gateway()
    threading.Thread(target=gateway.serve_forever, args=(0.02,), daemon=True).start()
    (tmp_path / "token").write_text("the token\n")
    monkeypatch.setenv("LONGSHORE_WEBHDFS_URL", f"http://127.0.0.1:{gateway.server_port}/webhdfs/v1")
    monkeypatch.setenv("LONGSHORE_WEBHDFS_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.chdir(tmp_path)
    yield gateway
    gateway.shutdown()
    gateway.server_close()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("store", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE", 0.02)
    monkeypatch.setattr(module, "PATIENCE", LIMIT)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    yield module
    for connection in module._kept:
        connection.close()


def test_a_folder_comes_and_goes_with_all_that_is_in_it(gateway: Gateway, store: ModuleType) -> None:
    names = ["a.csv", "deep/er/b 100%.csv", "deep/ü.csv", "deep/empty"]
    gateway.files = {f"/data/{name}": name.encode() * (name != "deep/empty") for name in names}
    store.get("webhdfs://portal:9186/data/", "here")
    store.put("here", "/copy")
    assert gateway.files == {
        **(first := {path: body for path, body in gateway.files.items() if path.startswith("/data/")}),
        **{path.replace("/data/", "/copy/"): body for path, body in first.items()},
    }
    assert len(gateway.files) == 2 * len(names)


def test_a_single_file_gets_the_name_that_was_asked_for(gateway: Gateway, store: ModuleType) -> None:
    gateway.files = {"/Output/mira/job/model.pt": BIG}
    assert store.main(["get", "hdfs://nn1:9000/Output/mira/job/model.pt", "mine.pt"]) == 0
    assert Path("mine.pt").read_bytes() == BIG


@pytest.mark.parametrize("fault", ["down", "breaks"])
def test_what_breaks_is_tried_again(gateway: Gateway, store: ModuleType, fault: str) -> None:
    gateway.files = {"/big": BIG}
    gateway.faults = ["", fault, fault]
    store.get("/big", "big")
    assert Path("big").read_bytes() == BIG
    assert gateway.asked == ["LISTSTATUS /big", "OPEN /big", "OPEN /big", "OPEN /big"]


def test_what_stays_down_is_said(gateway: Gateway, store: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.faults = ["down"] * 3
    monkeypatch.setattr(store, "PATIENCE", -1)
    with pytest.raises(store.StoreError, match="The store is down"):
        store.get("/big", "big")


def test_a_refusal_is_said_and_not_tried_again(gateway: Gateway, store: ModuleType) -> None:
    Path("big").write_bytes(BIG)
    gateway.faults = ["full"]
    with pytest.raises(SystemExit, match="The quota is reached"):
        store.main(["put", "big", "/big"])
    assert gateway.files == {}


def test_what_is_not_there_is_said(gateway: Gateway, store: ModuleType) -> None:
    with pytest.raises(store.NotThere, match="/nowhere: File does not exist"):
        store.get("/nowhere", "here")
    with pytest.raises(store.StoreError, match="no such file or folder here"):
        store.put("nothing", "/there")


def test_what_is_kept_comes_first_and_goes_back_when_it_changes(
    gateway: Gateway, store: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.files = {"/books/old": b"old", "/books/same": b"same"}
    Path("books").mkdir()
    Path("books/new").write_text("new")
    looks = iter([False, True])

    def look(_: object) -> bool:
        Path("books/old").write_text("changed")
        return next(looks)

    monkeypatch.setattr(store, "_pause", look)
    monkeypatch.setattr(store, "_ending", list)
    put = []
    monkeypatch.setattr(store, "_put_file", lambda local, remote: put.append((local.read_text(), remote)))
    store.keep("books", "/books")
    assert sorted(put)[-1] == ("new", "/books/new")
    assert ("changed", "/books/old") in put
    assert "/books/same" not in [remote for _, remote in put]


def test_what_only_grew_is_added_to_and_what_changed_is_replaced(
    gateway: Gateway, store: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorBoard's data server reads on in the file that it has open: a new file of that name it never sees."""
    gateway.files = {"/logs/events": b"one ", "/logs/model": b"old"}
    looks = iter([b"one two ", b"one two three ", b"other and longer than before"])
    seen = []

    def look(_: object) -> bool:
        seen.append((Path("logs/events").read_bytes(), Path("logs/events").stat().st_ino))
        gateway.files["/logs/events"] = next(looks, b"")
        return len(seen) > 3

    monkeypatch.setattr(store, "_pause", look)
    monkeypatch.setattr(store, "_ending", list)
    store.follow("/logs", "logs")
    assert [text for text, _ in seen] == [b"one ", b"one two ", b"one two three ", b"other and longer than before"]
    inodes = [inode for _, inode in seen]
    assert inodes[0] == inodes[1] == inodes[2] != inodes[3]
    assert sorted(path.name for path in Path("logs").iterdir()) == ["events", "model"]


def test_tensorboard_s_own_data_server_shows_each_point_while_the_training_runs(
    gateway: Gateway, store: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.files = {"/logs/run/events.out.tfevents.1": point(1)}
    steps = 1

    def look(_: object) -> bool:
        nonlocal steps
        until(lambda: bytes(range(1, steps + 1)) in curve(), 30, 0.2, what=f"the points of {steps} steps")
        steps += 1
        gateway.files["/logs/run/events.out.tfevents.1"] += point(steps)
        return steps > 4

    monkeypatch.setattr(store, "_pause", look)
    monkeypatch.setattr(store, "_ending", list)
    with data_server("logs") as curve:
        store.follow("/logs", "logs")


@contextmanager
def data_server(folder: str) -> Iterator[Callable[[], bytes]]:
    """What TensorBoard loads its curves with, a program of its own. Gives what asks it for the curve ``loss``: in its
    answer the numbers of the steps stand side by side, one byte each up to 127."""
    program = server_binary()
    if program is None or not shutil.which("curl"):
        pytest.skip("there is no tensorboard-data-server for this platform, or no curl to ask it with")
    command = [program, "--logdir", folder, "--port", "0", "--port-file", "port", "--reload", "1", "--die-after-stdin"]
    Path(folder).mkdir()
    with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
        try:
            port = until(lambda: Path("port").exists() and Path("port").read_text().strip(), 30)
            method = "tensorboard.data.TensorBoardDataProvider/ReadScalars"
            grpc = ["-H", "Content-Type: application/grpc", "-H", "TE: trailers", "--data-binary", "@-"]
            ask = ["curl", "-sS", "--http2-prior-knowledge", *grpc, f"http://127.0.0.1:{port}/{method}"]
            asked = _field(1, b"any") + _field(2, _field(1, b"scalars")) + _field(4, b"\x08\x7f")
            body = b"\0" + struct.pack(">I", len(asked)) + asked
            yield lambda: subprocess.run(ask, input=body, capture_output=True, check=True).stdout
        finally:
            server.kill()


def point(step: int) -> bytes:
    """A point of the curve ``loss`` as a record of an event file."""
    value = _field(1, _field(1, b"loss") + b"\x15" + struct.pack("<f", 1 / step))
    event = b"\x09" + struct.pack("<d", 1e9 + step) + b"\x10" + bytes([step]) + _field(5, value)
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def _checksum(data: bytes) -> bytes:
    """CRC-32C, masked as TensorFlow's files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@pytest.mark.parametrize("is_earlier", [False, True])
def test_many_files_share_few_connections(gateway: Gateway, store: ModuleType, is_earlier: bool) -> None:
    gateway.is_earlier = is_earlier
    gateway.files = {f"/many/{number}": b"%d" % number for number in range(60)}
    store.get("/many", "many")
    store.put("many", "/again")
    assert {path: body for path, body in gateway.files.items() if path.startswith("/again/")} == {
        f"/again/{number}": b"%d" % number for number in range(60)
    }
    assert 1 <= gateway.connections <= store.AT_ONCE + 1


def test_a_connection_that_the_portal_closed_meanwhile_is_made_anew(gateway: Gateway, store: ModuleType) -> None:
    gateway.files = {"/big": BIG}
    store.get("/big", "big")
    gateway.faults = ["closes"]
    store.get("/big", "big")
    store.put("big", "/copy")
    assert gateway.files["/copy"] == BIG


def test_the_training_that_resumes_saves_when_it_is_told_to_end_and_goes_on_at_that_step(gateway: Gateway) -> None:
    program = PROGRAM.with_name("resume.py")

    def run(steps: int) -> subprocess.Popen[str]:
        command = [sys.executable, str(program), f"--steps={steps}", "--pause=0.01", "--every=0.05", "--output=/out"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with run(10**6) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "begins at step 0\n"
        assert one.stdout.readline().startswith("saved step ")
        one.send_signal(signal.SIGTERM)
        last = one.stdout.read().splitlines()
    saved = json.loads(gateway.files["/out/state.json"])["step"]
    assert one.returncode == 128 + signal.SIGTERM
    assert not last or last[-1] == f"saved step {saved}"
    with run(saved + 3) as two:
        assert two.stdout is not None
        told = two.stdout.read().splitlines()
    assert (two.returncode, told[0]) == (0, f"resumed after step {saved}")
    assert json.loads(gateway.files["/out/state.json"])["step"] == saved + 3
