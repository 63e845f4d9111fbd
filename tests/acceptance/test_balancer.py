"""nginx before several hosts, as docs/run/several-hosts.md has it: who hangs and who is dead costs a request a wait,
not an answer. The hosts are stand-ins; tests/acceptance/test_https.py has nginx before a real portal."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.acceptance.portal import free_port
from tests.bed import nginx_bed
from tests.helpers import LIMIT, need, quick

HANGS = 1  # seconds in place of the page's minute


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _nginx() -> None:
    need("nginx")


@pytest.fixture
def works() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def hangs() -> Iterator[socket.socket]:
    """A kernel that takes connections for a process that is stopped."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:
        silent.setblocking(False)
        yield silent


def asked(hangs: socket.socket) -> int:
    """How many connections its kernel has taken."""
    number = 0
    with suppress(BlockingIOError):
        while True:
            hangs.accept()[0].close()
            number += 1
    return number


@pytest.mark.parametrize("first", [0, 1, 2])
def test_every_request_is_answered_and_who_hangs_is_left_alone(
    works: str, hangs: socket.socket, first: int, tmp_path: Path
) -> None:
    """One of the three orders begins with each of them, whichever nginx takes for this address."""
    hosts = [works, f"127.0.0.1:{hangs.getsockname()[1]}", f"127.0.0.1:{free_port()}"]
    port = free_port()
    with nginx_bed.nginx(tmp_path, port, *hosts[first:], *hosts[:first], patience=f"{HANGS}s") as certificate:
        trusting = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trusting, timeout=LIMIT) as http:
            assert http.get("/").text == "here"
            for _ in range(2):
                with quick(HANGS, "a request after the first"):
                    assert http.get("/").text == "here"
    assert asked(hangs) <= 1
