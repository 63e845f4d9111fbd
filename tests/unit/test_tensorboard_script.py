"""The script of the job that serves event files, with a store and a TensorBoard that stand in for the real ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.helpers import LIMIT, until

SCRIPT = Path(__file__).parents[2] / "jobs/web_pages/tensorboard.sh"
FILES = {
    "/out/events.out.tfevents.1": b"first",
    "/out/deep er/events.out.tfevents.2": b"second",
    "/out/model.bin": b"x",
}
SHOWS = "import os, sys; folder = sys.argv[sys.argv.index('--logdir') + 1]\n" + (
    "for at, _, names in os.walk(folder): print(*(open(os.path.join(at, name)).read() for name in names), flush=True)\n"
    "open(os.path.join(os.environ['TMPDIR'], 'shown'), 'w').write(str(os.getpid()))\n"
)


class Store(ThreadingHTTPServer):
    """``may_be_watched``: true once TensorBoard has come as far as the test wants it. What watches it asks for the
    folder first, as the second one that does, and gets no answer before."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.may_be_watched: Callable[[], bool] = lambda: True
        self.listings = 0


class Handler(BaseHTTPRequestHandler):
    server: Store

    def do_GET(self) -> None:
        url = urlsplit(self.path.replace("%20", " "))
        asked = parse_qs(url.query)
        assert asked["delegation"] == ["token"]
        path = url.path.removeprefix("/webhdfs/v1")
        if asked["op"] == ["LISTSTATUS"] and path == "/out":
            self.server.listings += 1
            if self.server.listings == 2:
                until(self.server.may_be_watched, what="TensorBoard has come so far")
        body = FILES[path][int(asked["offset"][0]) :] if asked["op"] == ["OPEN"] else json.dumps(_listed(path)).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _listed(folder: str) -> dict[str, object]:
    below = [name.removeprefix(f"{folder}/") for name in FILES if name.startswith(f"{folder}/")]
    found = {
        name.partition("/")[0]: {
            "pathSuffix": name.partition("/")[0],
            "type": "DIRECTORY" if "/" in name else "FILE",
            "length": 0 if "/" in name else len(FILES[f"{folder}/{name}"]),
        }
        for name in below
    }
    return {"FileStatuses": {"FileStatus": list(found.values())}}


@pytest.fixture
def store() -> Iterator[Store]:
    server = Store()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def environment(tmp_path: Path, store: Store) -> Iterator[dict[str, str]]:
    (tmp_path / "token").write_text("token\n")
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "__init__.py").touch()
    (tmp_path / "python3").symlink_to(sys.executable)
    with socket.socket() as kept:  # for the whole test: whoever had this port would pass for a visitor
        kept.bind(("127.0.0.1", 0))
        yield {
            **{"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)},
            **{"TB_FOLDER": "/out", "TB_IDLE": "0.5"},
            "PAI_CONTAINER_HOST_tensorboard_PORT_LIST": str(kept.getsockname()[1]),
            "LONGSHORE_WEBHDFS_URL": f"http://127.0.0.1:{store.server_address[1]}/webhdfs/v1",
            "LONGSHORE_WEBHDFS_TOKEN_FILE": str(tmp_path / "token"),
        }


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(("then", "code"), [("import time; time.sleep(60)", 0), ("sys.exit(3)", 1)])
def test_it_fetches_event_files_alone_and_ends_when_nobody_visits(
    environment: dict[str, str], store: Store, tmp_path: Path, shell: str, then: str, code: int
) -> None:
    shown = tmp_path / "shown"  # TensorBoard writes its process id there when it has printed all it found

    def has_come_so_far() -> bool:
        pid = shown.read_text() if shown.exists() else ""
        return bool(pid) and (code == 0 or not _runs(pid))

    store.may_be_watched = has_come_so_far
    (tmp_path / "tensorboard" / "main.py").write_text(SHOWS + then)
    done = subprocess.run([shell, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == code, done.stderr
    assert set(done.stdout.split()) >= {"first", "second"} and "model" not in done.stdout
    assert ("Nobody visited" in done.stdout, "has ended" in done.stderr) == (code == 0, code == 1)
