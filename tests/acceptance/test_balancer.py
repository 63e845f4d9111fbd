"""nginx before several hosts, as docs/run/several-hosts.md has it: who hangs and who is dead costs a request a wait,
not an answer. The hosts are stand-ins; tests/acceptance/test_https.py has nginx before a real portal."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.acceptance.portal import free_port
from tests.bed import nginx_bed
from tests.helpers import need, patience

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
def hangs() -> Iterator[str]:
    """A kernel that takes connections for a process that is stopped."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:
        yield f"127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize("first", [0, 1, 2])
def test_every_request_is_answered_and_who_hangs_is_left_alone(
    works: str, hangs: str, first: int, tmp_path: Path
) -> None:
    """One of the three orders begins with each of them, whichever nginx takes for this address."""
    hosts = [works, hangs, f"127.0.0.1:{free_port()}"]
    port = free_port()
    with nginx_bed.nginx(tmp_path, port, *hosts[first:], *hosts[:first], patience=f"{HANGS}s") as certificate:
        trusting = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trusting, timeout=30) as http:
            took = []
            for _ in range(3):
                began = time.monotonic()
                assert http.get("/").text == "here"
                took.append(time.monotonic() - began)
    assert max(took[1:]) < HANGS * patience()
