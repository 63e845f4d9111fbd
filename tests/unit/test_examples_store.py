"""docs/examples/code/store.py against a gateway that breaks, refuses and is down; the real one is in
tests/acceptance/test_examples.py."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "docs/examples/code/store.py"
BIG = bytes(range(256)) * 40_000  # ten megabytes: more than a connection holds by itself


class Gateway(ThreadingHTTPServer):
    """``faults``: what happens to the next requests, instead of an answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Gateway

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
            self.server.files[unquote(urlsplit(self.path).path).removeprefix("/webhdfs/v1")] = body
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
def store(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("store", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE", 0.02)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return module


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
    monkeypatch.setattr(store, "put", lambda local, remote: put.append((Path(local).read_text(), remote)))
    store.keep("books", "/books")
    assert sorted(put)[-1] == ("new", "/books/new")
    assert ("changed", "/books/old") in put
    assert "/books/same" not in [remote for _, remote in put]
