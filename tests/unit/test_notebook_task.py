"""The program that runs a notebook in its task, against a gateway and stand-ins for JupyterLab and code-server.
tests/acceptance/test_notebook.py has the real ones."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.helpers import LIMIT, until

PROGRAM = Path(__file__).resolve().parents[2] / "jobs/web_pages/notebook_task.py"
LAB = """#!{python}
import json, os, sys, time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
port = int([each for each in sys.argv if each.startswith("--port=")][0][7:])
folder = [each for each in sys.argv if each.startswith("--notebook-dir=")][0][15:]
class Lab(BaseHTTPRequestHandler):
    def do_GET(self):
        assert self.path.startswith("/~/key/api/") and "token=secret" in self.path, self.path
        open(folder + "/new.ipynb", "a").close()
        state = "busy" if os.path.exists(folder + "/busy") else "idle"
        seen = datetime(2020, 1, 1, tzinfo=timezone.utc).isoformat().replace("+00:00", "Z")
        kernel = {{"last_activity": seen, "execution_state": state}}
        body = json.dumps([kernel] if "kernels" in self.path else []).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
HTTPServer.allow_reuse_port = True
HTTPServer(("127.0.0.1", port), Lab).serve_forever()
"""


CODE = """#!{python}
import hashlib, os, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
bind, folder = sys.argv[sys.argv.index("--bind-addr") + 1], sys.argv[-1]
own = sys.argv[sys.argv.index("--user-data-dir") + 1]
assert os.environ["HASHED_PASSWORD"] == hashlib.sha256(b"secret").hexdigest() and "CODE_TOKEN" not in os.environ
for name in ("User/settings.json", "User/workspaceStorage/1/vscode.lock", "User/caches/a", "logs/1.log", "heartbeat"):
    os.makedirs(os.path.dirname(own + "/" + name), exist_ok=True)
    open(own + "/" + name, "a").close()
with open(own + "/trusts", "w") as file:
    file.write(str("--disable-workspace-trust" in sys.argv))
os.rename(own + "/trusts", folder + "/trusts")  # whole, and when all else is there: it may be saved at any moment
program = subprocess.Popen(["sh", "-c", "while [ -e busy ]; do :; done"], cwd=folder)
class Code(BaseHTTPRequestHandler):
    def do_GET(self):
        assert self.path == "/healthz", self.path
        with open(own + "/heartbeat", "a") as file:
            file.write("once more")
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
HTTPServer.allow_reuse_port = True
HTTPServer(("127.0.0.1", int(bind.rpartition(":")[2])), Code).serve_forever()
"""


class Gateway(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.refuses, self.is_there = False, True


class Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_GET(self) -> None:
        assert parse_qs(urlsplit(self.path).query) == {"op": ["PACK"], "delegation": ["the token"]}
        if not self.server.is_there:
            return self.send_error(404)
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w") as tar:
            for name, data in self.server.files.items():
                info = tarfile.TarInfo(f"nb/{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        self._answer(200, whole.getvalue())

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.refuses:
            return self._answer(403, json.dumps({"RemoteException": {"message": "There is no room."}}).encode())
        with tarfile.open(fileobj=io.BytesIO(body)) as tar:
            self.server.files |= {each.name: cast(Any, tar.extractfile(each)).read() for each in tar}
        self._answer(200, b"{}")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    server = Gateway()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


class Running:
    """The program with what it said so far."""

    def __init__(
        self,
        folder: Path,
        gateway: Gateway,
        *,
        idle: float,
        has_lab: bool = True,
        tool: str = "jupyter",
        own: str = "yes",
    ) -> None:
        programs = folder / "bin"
        programs.mkdir()
        (folder / "token").write_text("the token")
        if has_lab:
            name, text = ("jupyter", LAB) if tool == "jupyter" else ("code-server", CODE)
            (programs / name).write_text(text.format(python=sys.executable))
            (programs / name).chmod(0o755)
        self.here, self.said = folder / "here", folder / "said"
        self.port = socket.socket()  # kept until the end, so that nobody else gets it before the tool listens on it
        self.port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.port.bind(("127.0.0.1", 0))
        env = {
            "PATH": f"{programs}:/bin",
            "NOTEBOOK_TOOL": tool,
            "NOTEBOOK_FOLDER": "/users/alice/nb",
            "NOTEBOOK_IDLE": str(idle),
            "NOTEBOOK_IS_OWN": own,
            "NOTEBOOK_HERE": str(self.here),
            "NOTEBOOK_PAUSE": "0.05",
            f"PAI_CONTAINER_HOST_{tool}_PORT_LIST": str(self.port.getsockname()[1]),
            f"LONGSHORE_WEB_PATH_{tool}": "/~/key",
            "JUPYTER_TOKEN" if tool == "jupyter" else "CODE_TOKEN": "secret",
            "LONGSHORE_WEBHDFS_URL": f"http://127.0.0.1:{gateway.server_address[1]}/webhdfs/v1",
            "LONGSHORE_WEBHDFS_TOKEN_FILE": str(folder / "token"),
            "LONGSHORE_SAVED_FILE": str(folder / "saved"),
            "TMPDIR": str(folder),
        }
        with self.said.open("wb") as said:
            command = [sys.executable, str(PROGRAM)]
            self.process = subprocess.Popen(command, env=env, stdout=said, stderr=said, start_new_session=True)

    def close(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.port.close()


@pytest.fixture
def run(tmp_path: Path, gateway: Gateway) -> Iterator[Any]:
    started: list[Running] = []

    def start(**more: Any) -> Running:
        started.append(Running(tmp_path, gateway, **more))
        return started[0]

    yield start
    for each in started:
        each.close()


def test_it_begins_as_it_was_saves_what_changes_and_the_last_when_it_is_told_to_end(run: Any, gateway: Gateway) -> None:
    gateway.files = {"a.ipynb": b"old", "deep/ü.csv": b"1"}
    one = run(idle=3600)
    until(lambda: "new.ipynb" in gateway.files, what="what JupyterLab made is saved")
    assert (one.here / "deep/ü.csv").read_bytes() == b"1"
    until((one.here.parent / "saved").exists, what="it says that it has saved")
    (one.here / "a.ipynb").write_bytes(b"newer")
    until(lambda: gateway.files["a.ipynb"] == b"newer", what="a change is saved")
    os.kill(one.process.pid, signal.SIGSTOP)
    (one.here / "last").write_bytes(b"last")
    os.kill(one.process.pid, signal.SIGTERM)
    os.kill(one.process.pid, signal.SIGCONT)
    assert one.process.wait(LIMIT) == 0 and gateway.files["last"] == b"last"


def test_it_ends_when_nobody_uses_it_and_not_while_a_cell_runs(run: Any, gateway: Gateway, tmp_path: Path) -> None:
    gateway.is_there = False
    (tmp_path / "here").mkdir()
    (tmp_path / "here/busy").touch()
    one = run(idle=0.2)
    until(lambda: "new.ipynb" in gateway.files, what="JupyterLab runs")
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.4, what="it is past its time")
    assert one.process.poll() is None, "a cell runs"
    (one.here / "busy").unlink()
    assert one.process.wait(LIMIT) == 0
    said = one.said.read_text()
    assert "It ends at" in said and said.rstrip().endswith("it is saved and given back.")


def test_vs_code_is_used_while_a_program_of_it_computes_and_keeps_what_is_its_users(run: Any, gateway: Gateway) -> None:
    gateway.files = {"busy": b"", ".code-server/User/settings.json": b"{}", "train.py": b"1"}
    one = run(idle=1, tool="code")
    lock = ".code-server/User/workspaceStorage/1/vscode.lock"
    until(lambda: (one.here / ".code-server/heartbeat").exists(), what="it was asked whether it answers")
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 2, what="it is past its time")
    assert one.process.poll() is None, "a program computes"
    (one.here / ".code-server/extensions").mkdir()
    (one.here / ".code-server/extensions/one.json").write_bytes(b"it")
    until(lambda: ".code-server/extensions/one.json" in gateway.files, what="an extension is saved")
    (one.here / "busy").unlink()
    assert one.process.wait(LIMIT) == 0, "its heartbeat and its logs are no use"
    assert gateway.files["trusts"] == b"True"
    assert (one.here / lock).exists() and not {lock, ".code-server/heartbeat"} & set(gateway.files)
    assert not [name for name in gateway.files if "/logs/" in name or "/caches/" in name]


def test_vs_code_asks_before_it_runs_what_others_may_have_put_there_and_keeps_its_own_elsewhere(
    run: Any, gateway: Gateway
) -> None:
    planted = {".code-server/extensions/evil/package.json": b"{}", ".vscode/tasks.json": b"{}"}
    gateway.files = dict(planted)
    one = run(idle=3600, tool="code", own="")
    until(lambda: "trusts" in gateway.files, what="it runs, and what it made is saved")
    assert gateway.files == {**planted, "trusts": b"False"}
    assert (one.here.parent / ".code-server/User/settings.json").exists()
    assert not (one.here.parent / ".code-server/extensions").exists()


def test_what_has_no_room_is_said_and_it_does_not_end_before_it_is_saved(run: Any, gateway: Gateway) -> None:
    gateway.refuses = True
    one = run(idle=0.2)
    until(lambda: "There is no room." in one.said.read_text(), what="it says why nothing is saved")
    assert one.process.poll() is None
    gateway.refuses = False
    assert one.process.wait(LIMIT) == 0 and "new.ipynb" in gateway.files


@pytest.mark.parametrize(("tool", "lacks"), [("jupyter", "JupyterLab"), ("code", "VS Code (code-server)")])
def test_an_image_without_it_is_told(run: Any, tool: str, lacks: str) -> None:
    one = run(idle=60, has_lab=False, tool=tool)
    assert one.process.wait(LIMIT) == 1 and f"This image has no {lacks}" in one.said.read_text()
