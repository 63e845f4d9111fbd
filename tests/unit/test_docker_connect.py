"""Clients of one engine that several threads share."""

from __future__ import annotations

import io
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from threading import Thread
from typing import Any

import pytest

from clusters.engines.docker import ssh
from clusters.engines.docker.connect import API_VERSION, EngineClients, ask, open_client
from clusters.engines.docker.runtime import DockerRuntime
from jobs.logs.places import STREAMS
from tests.helpers import LIMIT


class Client:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Login:
    """A login that succeeded."""

    def get_transport(self) -> Login:
        return self

    def set_keepalive(self, seconds: int) -> None:
        pass


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> EngineClients:
    monkeypatch.setattr(EngineClients, "_client", lambda self, timeout: Client())
    return EngineClients("ssh://root@gpu-01")


def test_one_slow_answer_does_not_cut_off_who_shares_its_connection(ways: EngineClients) -> None:
    mine, slow = ways.quick(), ways.quick()
    client: Any = mine.__enter__()
    with pytest.raises(TimeoutError), slow:
        raise TimeoutError("timed out")
    assert not client.closed
    with ways.quick() as other:
        assert other is not client, "a connection that broke is given to nobody any more"
    mine.__exit__(None, None, None)
    assert client.closed, "the last who used it closes it"
    with ways.quick() as again:
        assert again is other


@pytest.mark.parametrize(("drops", "comes"), [(2, True), (9, False)])
def test_a_login_that_sshd_dropped_is_tried_again_a_few_times(
    monkeypatch: pytest.MonkeyPatch, drops: int, comes: bool
) -> None:
    left = [EOFError()] * drops

    def connect(adapter: Any) -> None:
        if left:
            raise left.pop()

    monkeypatch.setattr(ssh.SSHHTTPAdapter, "_connect", connect)
    monkeypatch.setattr(ssh, "_LOGIN_PAUSES", (0.0, 0.0, 0.0))
    adapter = ssh.EngineSsh.__new__(ssh.EngineSsh)
    adapter.ssh_client = Login()
    if comes:
        adapter._connect()
        return
    with pytest.raises(EOFError):
        adapter._connect()


SINCE = "2026-01-01T00:00:00.000000000Z"
LINE = b"2026-01-01T00:00:00.000000000Z a line\n"
LOG = b"\x01\0\0\0" + len(LINE).to_bytes(4, "big") + LINE


class Server(ThreadingMixIn, UnixStreamServer):
    """An engine at a socket that answers everything, and remembers who connected and what was asked."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(path, Answering)
        self.connections = 0
        self.asked: list[tuple[str, bytes]] = []

    def verify_request(self, request: Any, client_address: Any) -> bool:
        self.connections += 1
        return True


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def address_string(self) -> str:
        return "here"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        self.server.asked.append((self.requestline, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        body = LOG if "/logs" in self.path else b'{"ApiVersion": "1.41"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_DELETE = do_PUT = do_POST


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Server]:
    with Server(str(tmp_path / "engine.sock")) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_all_questions_to_a_socket_take_one_connection(engine: Server) -> None:
    client = open_client(f"unix://{engine.server_address}", None, API_VERSION, LIMIT)
    for name in ("a", "b", "c"):
        assert ask(client, f"/containers/{name}/start", method="post").json()
    client.close()
    assert engine.connections == 1


def test_what_is_asked_arrives_as_the_library_would_send_it(engine: Server) -> None:
    client = open_client(f"unix://{engine.server_address}", None, API_VERSION, LIMIT)
    client.create_container("image", "true", name="name")
    client.remove_container("name", v=True, force=True)
    client.put_archive("name", "/", io.BytesIO(b"tar"))
    client.close()
    (created, body), removed, (put, tar) = engine.asked
    assert created == "POST /v1.41/containers/create?name=name HTTP/1.1"
    assert b'"Image": "image"' in body
    assert removed == ("DELETE /v1.41/containers/name?v=True&link=False&force=True HTTP/1.1", b"")
    assert (put, tar) == ("PUT /v1.41/containers/name/archive?path=%2F HTTP/1.1", b"tar")


def test_a_log_that_was_read_to_its_end_leaves_its_connection_to_others(engine: Server) -> None:
    runtime = DockerRuntime(f"unix://{engine.server_address}", timeout=LIMIT)
    for stream in STREAMS:
        (chunk,) = runtime.logs("name", stream, since=SINCE)
        assert chunk.data == b"a line\n"
    assert engine.connections == 1
